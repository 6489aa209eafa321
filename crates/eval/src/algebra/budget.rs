//! What bounds the time and memory of reading one answer.

use super::Rational;

/// The largest numerator or denominator, in bits.
pub(super) const MAX_BITS: u64 = 6000;

/// Why an expression has no canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It is none that this grader reads.
    Unread,
    /// It may well be one, but working it out costs more than the budget.
    TooHard,
}

/// Work that may still be done, in units of about one small rational operation.
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

    /// Pays for a number just computed, and refuses it if it is too large to go on with.
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
