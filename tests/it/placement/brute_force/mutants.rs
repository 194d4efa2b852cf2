//! Certificates with a change in them.

use phalanx::place::{Certificate, Lack, Refusal};

/// Changes every claim of a certificate, one at a time.
pub(super) fn mutants(certificate: &Certificate) -> Vec<Certificate> {
    fn of(refusal: &Refusal) -> Vec<Refusal> {
        let mut all = Vec::new();
        let mut renamed = refusal.clone();
        renamed.group.push('x');
        all.push(renamed);
        if let Some((have, need)) = refusal.too_few {
            for too_few in [(have, need + 1), (have + 1, need)] {
                let mut other = refusal.clone();
                other.too_few = Some(too_few);
                all.push(other);
            }
        }
        for index in 0..refusal.candidates.len() {
            let mut missing = refusal.clone();
            missing.candidates.remove(index);
            all.push(missing);
            let mut other = refusal.clone();
            other.candidates[index].path.push(None);
            all.push(other);
            let lacks: Vec<Lack> = match &refusal.candidates[index].lack {
                Lack::Room { resource, need, free } => vec![
                    Lack::Room { resource: resource.clone(), need: need + 1, free: *free },
                    Lack::Room { resource: resource.clone(), need: *need, free: free - 1 },
                    Lack::Room { resource: resource.clone(), need: *free, free: *need },
                ],
                Lack::Count { pod, need, fits } => vec![
                    Lack::Count { pod: pod.clone(), need: need + 1, fits: *fits },
                    Lack::Count { pod: pod.clone(), need: *need, fits: fits + 1 },
                    Lack::Count { pod: "nobody".into(), need: *need, fits: *fits },
                ],
                Lack::Members { need, fits } => vec![
                    Lack::Members { need: need + 1, fits: *fits },
                    Lack::Members { need: *need, fits: fits + 1 },
                ],
                Lack::Shares { resource, each, need, fits } => {
                    let claim = |each: i64, need: u32, fits: u32| Lack::Shares {
                        resource: resource.clone(),
                        each,
                        need,
                        fits,
                    };
                    vec![
                        claim(each + 100, *need, *fits),
                        claim(*each, need + 1, *fits),
                        claim(*each, *need, fits + 1),
                    ]
                }
                Lack::Groups { need, fits, blocked } => {
                    let mut lacks = vec![
                        Lack::Groups { need: need + 1, fits: *fits, blocked: blocked.clone() },
                        Lack::Groups { need: *need, fits: *fits, blocked: Vec::new() },
                    ];
                    for (at, inner) in blocked.iter().enumerate() {
                        for inner in of(inner) {
                            let mut blocked = blocked.clone();
                            blocked[at] = inner;
                            lacks.push(Lack::Groups { need: *need, fits: *fits, blocked });
                        }
                    }
                    lacks
                }
                _ => vec![Lack::Room { resource: "gpu".into(), need: 1_000, free: 0 }],
            };
            for lack in lacks {
                let mut changed = refusal.clone();
                changed.candidates[index].lack = lack;
                all.push(changed);
            }
        }
        all
    }
    let with = |refusal| {
        let mut changed = certificate.clone();
        changed.refusal = refusal;
        changed
    };
    of(&certificate.refusal).into_iter().map(with).collect()
}
