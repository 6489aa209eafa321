//! A limit on the work of parsing and comparing answers.

use super::Rational;

/// The largest numerator or denominator, in bits.
pub(super) const MAX_BITS: u64 = 6000;

/// The reason why a text has no canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The text is not an expression that the parser knows.
    Unread,
    /// The calculation is over the budget, or a number or sum is too large.
    TooHard,
}

/// The remaining work, in units of about one operation on small rational numbers.
///
/// The unit is coarse on purpose: it is a bound, not a clock, so that the verdict on an answer
/// never depends on the machine.
#[derive(Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new(units: u64) -> Self {
        Self(units)
    }

    pub(crate) fn charge(&mut self, units: u64) -> Result<(), Fault> {
        self.0 = self.0.checked_sub(units).ok_or(Fault::TooHard)?;
        Ok(())
    }

    /// Charges the cost of `value`. Returns an error if `value` has more than [`MAX_BITS`] bits.
    pub(super) fn number(&mut self, value: Rational) -> Result<Rational, Fault> {
        let bits = value.numer().bits().max(value.denom().bits());
        if bits > MAX_BITS {
            return Err(Fault::TooHard);
        }
        // The cost of reducing a fraction is quadratic in its length.
        let limbs = bits / 64;
        self.charge(1 + limbs * limbs / 4)?;
        Ok(value)
    }
}
