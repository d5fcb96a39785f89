//! Normal distribution and Student's distribution, from `statrs`.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Probability P(Z <= z) of the standard normal distribution.
pub fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Probability P(|T| >= |t|) of Student's distribution.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    2.0 * student(freedom).sf(t.abs())
}

/// Quantile of Student's distribution at probability `p`.
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    student(freedom).inverse_cdf(p)
}

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("there is at least one degree of freedom")
}
