//! Modules of a crate do not import each other in a circle, except for a parent and its children: to understand one
//! file of a circle, a reader has to read all of them.

use crate::modules::{Module, crates, imports, reachable, sources};
use corelane_tests::shipped_files;
use std::collections::{BTreeMap, BTreeSet};

/// Known circles, each with its crate and modules; entries may only be removed.
const KNOWN: &[(&str, &[&str])] = &[];

#[test]
fn modules_import_each_other_in_no_circle_but_parent_and_child() {
    let files = shipped_files();
    let mut wrong = Vec::new();
    for name in crates() {
        let sources = sources(&name, &files);
        let found = circles(&sources);
        let known: Vec<BTreeSet<String>> = KNOWN
            .iter()
            .filter(|(of, _)| *of == name)
            .map(|(_, modules)| modules.iter().map(|module| (*module).to_owned()).collect())
            .collect();
        for circle in found.iter().filter(|circle| !known.contains(circle)) {
            wrong.push(format!("{name}: {circle:?} import each other"));
        }
        for circle in known.iter().filter(|circle| !found.contains(circle)) {
            wrong.push(format!(
                "{name}: {circle:?} is no circle any more, or a smaller one: correct KNOWN"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sets of modules that import each other, directly or through others.
fn circles(sources: &BTreeMap<Module, String>) -> Vec<BTreeSet<String>> {
    let related = |one: &Module, other: &Module| one.starts_with(other) || other.starts_with(one);
    let mut imports = imports(sources);
    for (module, others) in &mut imports {
        others.retain(|other| !related(module, other));
    }
    let all: BTreeMap<&Module, BTreeSet<&Module>> = sources
        .keys()
        .map(|module| (module, reachable(&imports, module)))
        .collect();
    let circle = |module: &Module| -> BTreeSet<String> {
        let others = all[module].iter().filter(|other| all[**other].contains(module));
        others.map(|other| other.join("::")).collect()
    };
    let found: BTreeSet<BTreeSet<String>> = sources.keys().map(circle).collect();
    found.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[test]
fn circles_are_found_through_re_exports_and_parents_are_none() {
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let sources = BTreeMap::from([
        (Module::new(), "mod a;\nmod b;\npub use b::B;".to_owned()),
        (module("a"), "use crate::{B, c::{C as D}};\nmod below;".to_owned()),
        (module("a::below"), "use super::A;".to_owned()),
        (module("b"), "fn b() { super::c::call(); }".to_owned()),
        (module("c"), "use crate::a::{\n    A,\n};".to_owned()),
    ]);
    let circle = ["a", "b", "c"].map(str::to_owned).into();
    assert_eq!(circles(&sources), [circle]);
}
