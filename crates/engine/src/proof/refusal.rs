//! Verdict on a secured transport: it must refuse unauthorized peers.

use tripmeter_abi::UnauthorizedPeer;
use tripmeter_model::manifest::{PathProof, RefusalTrial, Verdict};

/// Adds trials of unauthorized peers to a path proof. The proof fails if a peer was accepted; a trial without a result
/// leaves it open.
pub fn with_unauthorized_peers(mut proof: PathProof, trials: Vec<RefusalTrial>) -> PathProof {
    let finding =
        trials.iter().min_by_key(|trial| badness(trial)).map(|worst| (badness(worst), finding(worst, &trials)));
    let Some((badness, finding)) = finding else { return proof };
    proof.verdict = match (badness, proof.verdict) {
        (Badness::LetIn, _) => Verdict::Failed,
        (Badness::Open, Verdict::Proven) => Verdict::NotVisible,
        (_, verdict) => verdict,
    };
    proof.evidence = format!("{finding}; {}", proof.evidence);
    proof.unauthorized_peers = trials;
    proof
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Badness {
    LetIn,
    Open,
    Refused,
}

fn badness(trial: &RefusalTrial) -> Badness {
    match trial.refused {
        Some(false) => Badness::LetIn,
        None => Badness::Open,
        Some(true) => Badness::Refused,
    }
}

fn finding(worst: &RefusalTrial, trials: &[RefusalTrial]) -> String {
    match worst.refused {
        Some(false) => format!("{} was let in", who(worst.kind)),
        None => format!("that {} is refused is not proven: {}", who(worst.kind), worst.why),
        Some(true) => {
            let all: Vec<&str> = trials.iter().map(|trial| who(trial.kind)).collect();
            format!("secured: {} refused", all.join(" and "))
        }
    }
}

fn who(kind: UnauthorizedPeer) -> &'static str {
    match kind {
        UnauthorizedPeer::Plain => "a peer without security",
        UnauthorizedPeer::Foreign => "a peer of another authority",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_abi::Path;

    fn judged(verdict: Verdict, refused: &[Option<bool>]) -> PathProof {
        let proof = PathProof::new(Path::Udp, verdict, "datagrams".to_owned());
        let trial = |(kind, refused): (&UnauthorizedPeer, &Option<bool>)| RefusalTrial {
            kind: *kind,
            refused: *refused,
            waited_ns: 2_000_000_000,
            why: "it crashed".to_owned(),
        };
        with_unauthorized_peers(proof, UnauthorizedPeer::ALL.iter().zip(refused).map(trial).collect())
    }

    #[test]
    fn without_unauthorized_peers_nothing_is_said() {
        let proof = judged(Verdict::Proven, &[]);
        assert_eq!((proof.verdict, proof.evidence.as_str()), (Verdict::Proven, "datagrams"));
    }

    #[test]
    fn all_must_be_refused() {
        let proof = judged(Verdict::Proven, &[Some(true), Some(true)]);
        let evidence = "secured: a peer without security and a peer of another authority refused; datagrams";
        assert_eq!((proof.verdict, proof.evidence.as_str()), (Verdict::Proven, evidence));
        assert_eq!(proof.unauthorized_peers.len(), 2);
        let proof = judged(Verdict::Proven, &[None, Some(false)]);
        assert_eq!(
            (proof.verdict, proof.evidence.as_str()),
            (Verdict::Failed, "a peer of another authority was let in; datagrams")
        );
    }

    #[test]
    fn a_crashed_unauthorized_peer_proves_nothing_and_hides_no_failure() {
        let proof = judged(Verdict::Proven, &[None, Some(true)]);
        let evidence = "that a peer without security is refused is not proven: it crashed; datagrams";
        assert_eq!((proof.verdict, proof.evidence.as_str()), (Verdict::NotVisible, evidence));
        assert_eq!(judged(Verdict::Failed, &[None, Some(true)]).verdict, Verdict::Failed);
        assert_eq!(judged(Verdict::NotVisible, &[Some(true), Some(true)]).verdict, Verdict::NotVisible);
    }
}
