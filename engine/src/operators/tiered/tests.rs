use super::residents::Residents;

#[test]
fn keys_used_longest_ago_are_the_coldest() {
    let mut residents = Residents::default();
    assert!(residents.touch(&[1, 2]).is_empty(), "nobody looks yet");
    residents.know(vec![1, 2, 3]);
    assert_eq!(residents.touch(&[9, 2, 9, 4]), [4, 9]);
    residents.is_below(9);
    assert_eq!(residents.len(), 5);
    let cold = residents.coldest(2);
    assert!(cold.contains(&1) && cold.contains(&3), "{cold:?}");
    let mut told = Vec::new();
    residents.remove(&[9, 7].into_iter().collect(), |hash, below| {
        told.push((hash, below));
    });
    assert_eq!(told, [(9, true)]);
    assert!(!residents.contains(9) && residents.contains(1));
}
