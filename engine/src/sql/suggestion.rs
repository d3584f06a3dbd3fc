//! "Did you mean": the closest of the known names, and the list of them.

use crate::config::edit_distance;

/// A hint that names the closest candidate, if one is close, and lists them all.
pub(super) fn hint<'a>(
    wanted: &str,
    kind: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut names: Vec<&str> = candidates.into_iter().collect();
    names.dedup();
    let meant = closest(wanted, &names)
        .map(|name| format!("did you mean '{name}'? "))
        .unwrap_or_default();
    if names.is_empty() {
        return format!("there are no {kind}");
    }
    format!("{meant}{kind}: {}", names.join(", "))
}

fn closest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    names
        .iter()
        .map(|name| (edit_distance(&name.to_lowercase(), &wanted), *name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, name)| name)
}
