//! The bound on the time and memory of parsing one answer.

use super::Rational;

/// The largest numerator or denominator, in bits.
pub(super) const MAX_BITS: u64 = 6000;

/// The reason why an expression has no canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The text is not an expression that this grader can parse.
    Unread,
    /// The calculation costs more than the budget.
    TooHard,
}

/// The work that may still be done, in units of about one small rational operation.
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

    /// Pays for a computed number; returns an error if the number has more than [`MAX_BITS`] bits.
    pub(super) fn number(&mut self, value: Rational) -> Result<Rational, Fault> {
        let bits = value.numer().bits().max(value.denom().bits());
        if bits > MAX_BITS {
            return Err(Fault::TooHard);
        }
        // Reducing a fraction is quadratic in its length.
        let limbs = bits / 64;
        self.charge(1 + limbs * limbs / 4)?;
        Ok(value)
    }
}
