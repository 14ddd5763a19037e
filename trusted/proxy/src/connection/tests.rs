use super::*;

#[test]
fn pauses_grow_to_a_limit() {
    let pauses: Vec<u128> = (1..=8).map(|failures| pause_after(failures).as_millis()).collect();
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    assert_eq!(pause_after(u32::MAX), PAUSE_MAX);
}
