//! Modules of a crate do not import each other in a circle, except for a parent and its children: to understand one
//! file of a circle, a reader has to read all of them.
//!
//! Paths in `use` and in code (`crate::`, `super::`) are read as text and followed through `pub use` to the file that
//! declares the item.

use corelane_tests::shipped_files;
use std::collections::{BTreeMap, BTreeSet};

/// Crates whose modules are checked.
const CRATES: &[&str] = &[
    "report", "measure", "host", "link", "observe", "load", "lab", "serve", "worker", "packet",
];

/// Known circles, each with its crate and modules; entries may only be removed.
const KNOWN: &[(&str, &[&str])] = &[];

/// A module's path within its crate.
type Module = Vec<String>;

#[test]
fn modules_import_each_other_in_no_circle_but_parent_and_child() {
    let files = shipped_files();
    let mut wrong = Vec::new();
    for room in CRATES {
        let sources = sources(room, &files);
        let found = circles(&sources);
        let known: Vec<BTreeSet<String>> = KNOWN
            .iter()
            .filter(|(of, _)| of == room)
            .map(|(_, modules)| modules.iter().map(|module| (*module).to_owned()).collect())
            .collect();
        for circle in found.iter().filter(|circle| !known.contains(circle)) {
            wrong.push(format!("{room}: {circle:?} import each other"));
        }
        for circle in known.iter().filter(|circle| !found.contains(circle)) {
            wrong.push(format!(
                "{room}: {circle:?} is no circle any more, or a smaller one: correct KNOWN"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The modules of a crate and their shipped lines.
fn sources(room: &str, files: &[(String, Vec<String>)]) -> BTreeMap<Module, String> {
    let root = format!("crates/{room}/src/");
    let module = |path: &str| -> Module {
        let mut parts: Module = path
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_owned)
            .collect();
        if parts
            .last()
            .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
        {
            parts.pop();
        }
        parts
    };
    let own = files
        .iter()
        .filter_map(|(path, lines)| Some((path.strip_prefix(&root)?, lines)));
    own.map(|(path, lines)| (module(path), lines.join("\n")))
        .collect()
}

/// The sets of modules that import each other, directly or through others.
fn circles(sources: &BTreeMap<Module, String>) -> Vec<BTreeSet<String>> {
    let imports = imports(sources);
    let reachable = |from: &Module| -> BTreeSet<&Module> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for other in &imports[module] {
                if seen.insert(other) {
                    next.push(other);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<&Module>> =
        sources.keys().map(|module| (module, reachable(module))).collect();
    let circle = |module: &Module| -> BTreeSet<String> {
        let others = all[module].iter().filter(|other| all[**other].contains(module));
        others.map(|other| other.join("::")).collect()
    };
    let found: BTreeSet<BTreeSet<String>> = sources.keys().map(circle).collect();
    found.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// The modules from which each module imports, except its ancestors and descendants.
fn imports(sources: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut reexported = BTreeMap::new();
    let mut named: BTreeMap<Module, Vec<Module>> = BTreeMap::new();
    for (module, text) in sources {
        for (path, is_public) in paths(text) {
            let Some(path) = absolute(module, &path, sources) else {
                continue;
            };
            if is_public && let Some(name) = path.last() {
                reexported.insert((module.clone(), name.clone()), path.clone());
            }
            named.entry(module.clone()).or_default().push(path);
        }
    }
    let related = |one: &Module, other: &Module| one.starts_with(other) || other.starts_with(one);
    let declares = |path: &Module| -> Module { declaring(path, sources, &reexported) };
    sources
        .keys()
        .map(|module| {
            let others = named.get(module).into_iter().flatten().map(declares);
            (
                module.clone(),
                others.filter(|other| !related(module, other)).collect(),
            )
        })
        .collect()
}

/// The module that declares the item of a path; re-exports are followed.
fn declaring(
    path: &Module,
    sources: &BTreeMap<Module, String>,
    reexported: &BTreeMap<(Module, String), Module>,
) -> Module {
    let mut path = path.clone();
    // No item is re-exported more often than that.
    for _ in 0..8 {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| sources.contains_key(&path[..*depth]))
            .unwrap_or(0);
        let module = path[..depth].to_vec();
        let further = path
            .get(depth)
            .and_then(|name| reexported.get(&(module.clone(), name.clone())));
        match further {
            Some(target) if target[..] != path[..=depth] => {
                path = target.iter().chain(&path[depth + 1..]).cloned().collect();
            }
            _ => return module,
        }
    }
    path
}

/// A path from the root of the crate; `None` for a path into another crate.
fn absolute(module: &Module, path: &str, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut start = match parts[0] {
        "crate" => Module::new(),
        "self" | "super" => module.clone(),
        child => {
            let child: Module = module.iter().cloned().chain([child.to_owned()]).collect();
            return sources.contains_key(&child).then(|| {
                child
                    .into_iter()
                    .chain(parts[1..].iter().map(|part| (*part).to_owned()))
                    .collect()
            });
        }
    };
    let keywords = parts
        .iter()
        .take_while(|part| ["crate", "self", "super"].contains(part));
    let above = keywords.clone().filter(|part| **part == "super").count();
    start.truncate(module.len().saturating_sub(above));
    start.extend(parts[keywords.count()..].iter().map(|part| (*part).to_owned()));
    Some(start)
}

/// Every path in a source: those of `use`, with whether the `use` is public, and others that begin with `crate` or
/// `super`.
fn paths(text: &str) -> Vec<(String, bool)> {
    let (mut paths, mut rest) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        let opening = line.split_once("use ").filter(|(before, _)| {
            before.is_empty() || (before.starts_with("pub") && before.ends_with([' ', ')']))
        });
        let Some((visibility, tree)) = opening else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.ends_with(';') {
            tree.push_str(lines.next().unwrap_or(";").trim());
        }
        let expanded = expand(tree.trim_end_matches(';'));
        paths.extend(expanded.into_iter().map(|path| (path, !visibility.is_empty())));
    }
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = rest.split(|letter| !is_path(letter));
    let own = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    paths.extend(own.map(|word| (word.trim_end_matches(':').to_owned(), false)));
    paths
}

/// `a::{b, c::{d, e as f}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let inner = inner.trim_end();
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expand(part.trim()))
        .map(|path| format!("{}{path}", prefix.trim()))
        .collect()
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
