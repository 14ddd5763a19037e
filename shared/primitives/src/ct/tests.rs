use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn equal_means_equal(
        left in prop::collection::vec(0..3_u8, 0..4),
        right in prop::collection::vec(0..3_u8, 0..4),
    ) {
        prop_assert_eq!(equal(&left, &right), left == right);
        prop_assert!(equal(&left, &left));
    }
}
