//! Verdict over several followers: each has its own proof, and the worst counts.

use tripmeter_model::count::saturating_sum;
use tripmeter_model::manifest::{PathProof, Verdict};
use tripmeter_model::trial::SHOWN_FOLLOWERS;

/// Combines the proofs of all followers, by index; a single proof is returned unchanged. The evidence names at most
/// [`SHOWN_FOLLOWERS`], those with the worst verdict if there are more.
///
/// # Panics
/// If `proofs` is empty.
pub fn of_all(proofs: Vec<PathProof>) -> PathProof {
    let badness = |verdict| match verdict {
        Verdict::Proven => 0,
        Verdict::NotVisible => 1,
        Verdict::Failed => 2,
    };
    if proofs.len() > 1 {
        let worst = proofs.iter().max_by_key(|proof| badness(proof.verdict)).expect("there are several").verdict;
        let told =
            proofs.iter().enumerate().filter(|(_, proof)| proofs.len() <= SHOWN_FOLLOWERS || proof.verdict == worst);
        let each = told.take(SHOWN_FOLLOWERS).map(|(index, proof)| format!("follower {index}: {}", proof.evidence));
        let mut evidence = each.collect::<Vec<_>>().join("; ");
        if proofs.len() > SHOWN_FOLLOWERS {
            evidence += &format!("; of {} followers", proofs.len());
        }
        let damaged = saturating_sum(proofs.iter().map(|proof| proof.damaged));
        return PathProof { damaged, ..PathProof::new(proofs[0].claim, worst, evidence) };
    }
    proofs.into_iter().next().expect("there is a follower")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(verdict: Verdict, evidence: &str) -> PathProof {
        PathProof::new(tripmeter_abi::Path::Udp, verdict, evidence.to_owned())
    }

    #[test]
    fn of_many_followers_the_ones_with_the_worst_verdict_are_reported() {
        let verdict = |follower| if follower % 100 == 99 { Verdict::Failed } else { Verdict::Proven };
        let all = of_all((0..512).map(|follower| proof(verdict(follower), "x")).collect());
        assert_eq!(all.verdict, Verdict::Failed);
        assert!(all.evidence.starts_with("follower 99: x; follower 199: x;"), "{}", all.evidence);
        assert!(all.evidence.ends_with("follower 499: x; of 512 followers"), "{}", all.evidence);
    }

    #[test]
    fn one_is_as_it_is_and_of_several_the_worst_counts() {
        let one = proof(Verdict::Proven, "so");
        assert_eq!(of_all(vec![one.clone()]), one);
        let damaged = |count| PathProof { damaged: count, ..proof(Verdict::Failed, "other") };
        let all = of_all(vec![one.clone(), damaged(2), PathProof { damaged: 1, ..proof(Verdict::NotVisible, "dark") }]);
        let evidence = "follower 0: so; follower 1: other; follower 2: dark".to_owned();
        assert_eq!(all, PathProof { evidence, ..damaged(3) });
        let all = of_all(vec![one, proof(Verdict::NotVisible, "dark")]);
        assert_eq!(all.verdict, Verdict::NotVisible);
    }
}
