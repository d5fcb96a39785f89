/// Error for values that a method cannot use.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is no value.
    #[error("no value of the {side} side; measure at least one run")]
    Empty {
        /// `reference`, `result` or `only`.
        side: &'static str,
    },
    /// A value is infinite or not a number.
    #[error("value {index} of the {side} side is {value}; leave that run out")]
    NotFinite {
        /// Side, as in `Empty`.
        side: &'static str,
        /// Index, from 0.
        index: usize,
        /// Value that cannot be used.
        value: f64,
    },
    /// A value has no logarithm.
    #[error("value {index} of the {side} side is {value}, and a ratio needs values above 0; leave that run out")]
    NotPositive {
        /// Side, as in `Empty`.
        side: &'static str,
        /// Index, from 0.
        index: usize,
        /// Value that cannot be used.
        value: f64,
    },
    /// Paired values differ in number between the sides.
    #[error(
        "{reference} values of the reference and {result} of the result are not pairs; remove values without a partner"
    )]
    NotPairs {
        /// Number of values of the reference.
        reference: usize,
        /// Number of values of the result.
        result: usize,
    },
    /// A break or known step is outside the series.
    #[error("{what} at index {index} is outside 1 to {last}; remove it")]
    OutsideSeries {
        /// `break` or `known step`.
        what: &'static str,
        /// Index, from 0.
        index: usize,
        /// Last valid index.
        last: usize,
    },
}

pub(crate) fn check_finite(side: &'static str, values: &[f64]) -> Result<(), Error> {
    if values.is_empty() {
        return Err(Error::Empty { side });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NotFinite { side, index, value: values[index] }),
        None => Ok(()),
    }
}

pub(crate) fn logarithms(side: &'static str, values: &[f64]) -> Result<Vec<f64>, Error> {
    check_finite(side, values)?;
    match values.iter().position(|&value| value <= 0.0) {
        Some(index) => Err(Error::NotPositive { side, index, value: values[index] }),
        None => Ok(values.iter().map(|value| value.ln()).collect()),
    }
}
