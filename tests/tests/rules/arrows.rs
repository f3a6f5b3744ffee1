//! A module does not import an item that its ancestor declares if the ancestor uses the module, directly or through
//! others. Such an import points upwards: neither file can be read without the other. What both need belongs in a module
//! below them. Re-exports do not count: the file that declares the item does.

use crate::modules::{Module, crates, imports, reachable, sources};
use corelane_tests::shipped_files;
use std::collections::{BTreeMap, BTreeSet};

/// The number of modules of each crate that have such an import; numbers may only fall.
const KNOWN: &[(&str, usize)] = &[
    ("cli", 3),
    ("host", 5),
    ("lab", 2),
    ("link", 2),
    ("observe", 1),
    ("packet", 5),
    ("proto", 1),
    ("report", 2),
    ("rss", 1),
    ("table", 1),
    ("worker", 14),
];

#[test]
fn modules_import_nothing_from_an_ancestor_that_uses_them() {
    let files = shipped_files();
    let mut wrong = Vec::new();
    for name in crates() {
        let found = arrows(&sources(&name, &files));
        let known = KNOWN
            .iter()
            .find(|(of, _)| *of == name)
            .map_or(0, |(_, known)| *known);
        if found.len() > known {
            let found: Vec<String> = found.iter().map(|arrow| format!("    {arrow}")).collect();
            wrong.push(format!(
                "{name}: {} upward imports, at most {known}:\n{}",
                found.len(),
                found.join("\n")
            ));
        } else if found.len() < known {
            wrong.push(format!(
                "{name} has {} upward imports: write it in KNOWN",
                found.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The upward imports, as `module -> ancestor`: those of a module from an ancestor that uses it, and those to which the
/// module adds methods, since they are called where the type is declared or above.
fn arrows(sources: &BTreeMap<Module, String>) -> BTreeSet<String> {
    let imports = imports(sources);
    let mut found = BTreeSet::new();
    for (module, others) in &imports {
        for ancestor in others.iter().filter(|other| module.starts_with(other)) {
            let adds_methods = extended(&sources[module]).any(|name| declares(&sources[ancestor], name));
            if adds_methods || reachable(&imports, ancestor).contains(module) {
                found.insert(format!("{} -> {}", module.join("::"), ancestor.join("::")));
            }
        }
    }
    found
}

/// The types to which a source adds methods.
fn extended(text: &str) -> impl Iterator<Item = &str> {
    let heads = text
        .lines()
        .filter(|line| line.starts_with("impl") && !line.contains(" for "));
    let types = heads.filter_map(|head| head.strip_suffix(" {")?.rsplit(' ').next());
    types.map(|name| name.split('<').next().unwrap_or_default())
}

fn declares(text: &str, name: &str) -> bool {
    let heads = ["struct", "enum"].map(|kind| format!("{kind} {name}"));
    text.lines().any(|line| {
        heads.iter().any(|head| {
            line.split_once(head.as_str())
                .is_some_and(|(_, rest)| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
        })
    })
}

#[test]
fn an_import_from_a_user_points_upwards_and_one_of_a_re_export_does_not() {
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let sources = BTreeMap::from([
        (
            Module::new(),
            "mod a;\npub use a::A;\npub enum Error {}".to_owned(),
        ),
        (
            module("a"),
            "mod direct;\nmod methods;\nmod none;\nmod through;\nfn a() { direct::call() }\npub struct A;"
                .to_owned(),
        ),
        (
            module("a::direct"),
            "use super::A;\nuse super::through::call;".to_owned(),
        ),
        (module("a::methods"), "use super::A;\nimpl A {\n}".to_owned()),
        (
            module("a::none"),
            "use super::A;\nuse crate::Error;\nimpl From<A> for Error {\n}".to_owned(),
        ),
        (module("a::through"), "use crate::A;".to_owned()),
    ]);
    let upward = ["a::direct -> a", "a::methods -> a", "a::through -> a"];
    assert_eq!(arrows(&sources), upward.map(str::to_owned).into());
}
