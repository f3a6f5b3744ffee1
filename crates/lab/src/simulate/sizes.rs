//! How flows share the datagrams.

use crate::error::Refusal;
use corelane_load::udp::Skew;
use corelane_loops::flows;

/// Datagrams of each of `flows` flows, largest first, `datagrams` in all. A flow's exact share is rounded so that the
/// running sum is never off by more than a half; a small one may round to nothing.
///
/// # Errors
/// When there are not more flows than elephants.
pub(super) fn share_out(sizes: Skew, datagrams: u64, flows: usize) -> Result<Vec<u64>, Refusal> {
    if let Skew::Elephants { flows: elephants, .. } = sizes
        && elephants >= flows
    {
        let wrong = format!("{elephants} elephants among {flows} flows");
        let reason = format!("{wrong}: give more flows, or fewer elephants");
        return Err(Refusal::new("--sizes", reason));
    }
    let shares = sizes.shares(flows);
    let shares = shares.unwrap_or_else(|| vec![1.0 / flows as f64; flows]);
    Ok(flows::share_out(&shares, datagrams))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datagram_is_given_to_a_flow() {
        for text in ["uniform", "zipf:0.7", "zipf:2", "elephants:3:99%"] {
            for (datagrams, flows) in [(1_000_000_007, 997), (10, 10), (3, 100)] {
                let shares = share_out(text.parse().unwrap(), datagrams, flows).unwrap();
                assert_eq!(
                    (shares.len(), shares.iter().sum::<u64>()),
                    (flows, datagrams),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn the_second_flow_of_zipf_1_has_half_of_the_first() {
        let shares = share_out(Skew::Zipf { exponent: 1.0 }, 1_000_000, 4).unwrap();
        assert_eq!(shares, [480_000, 240_000, 160_000, 120_000]);
    }

    #[test]
    fn elephants_have_their_share_and_the_others_the_rest() {
        let elephants = Skew::Elephants { flows: 2, share: 0.5 };
        let shares = share_out(elephants, 1000, 12).unwrap();
        assert_eq!(shares, [vec![250; 2], vec![50; 10]].concat());
        let refused = share_out(elephants, 1000, 2).unwrap_err().to_string();
        assert!(refused.starts_with("2 elephants among 2 flows"), "{refused}");
    }
}
