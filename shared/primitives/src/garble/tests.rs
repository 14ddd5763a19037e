use super::*;

fn block(seed: u8) -> Block {
    let mut output = [0; 16];
    prg::Prg::new(&[seed; 16]).fill(&mut output);
    output
}

#[test]
fn one_byte_against_integers() {
    let delta = delta_from(&block(1));
    for v in [0_u8, 1, 77, 128, 255] {
        for a in 0..=255_u8 {
            let nonce = block(a);
            let (labels, carry) = derive_labels(&block(2), &nonce, 8);
            let garbled = garble(
                &delta,
                &[Comparator {
                    nonce,
                    labels: &labels,
                    carry,
                    threshold: &[v],
                }],
            );
            let active = encode(&labels, &delta, &[a]);
            let outcome = evaluate(&[Evaluation {
                nonce,
                labels: &active,
                carry,
                gates: &garbled[0].gates,
            }])
            .expect("fits")[0];
            let right = garbled[0].outcome;
            assert_eq!(
                outcome,
                if a < v { other_label(&right, &delta) } else { right },
                "{a} < {v}"
            );
        }
    }
}
