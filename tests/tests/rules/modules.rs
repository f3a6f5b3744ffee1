//! The modules of a crate and what each imports, read from the text of `use` and of paths (`crate::`, `super::`, and
//! those that begin with a child module), and followed through `pub use` to the file that declares the item.

use corelane_tests::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A module's path within its crate.
pub type Module = Vec<String>;

/// The modules from which each module imports.
pub type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The names of the crates, which are the folders in `crates`.
pub fn crates() -> Vec<String> {
    let folders = fs::read_dir(repository().join("crates")).expect("the folder of the crates");
    let mut names: Vec<String> = folders
        .map(|entry| {
            entry
                .expect("a readable folder")
                .file_name()
                .display()
                .to_string()
        })
        .collect();
    names.sort();
    names
}

/// The modules of a crate and their shipped lines.
pub fn sources(name: &str, files: &[(String, Vec<String>)]) -> BTreeMap<Module, String> {
    let root = format!("crates/{name}/src/");
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

/// The modules from which each module imports. A re-export of a descendant counts only if the file also uses the item.
pub fn imports(sources: &BTreeMap<Module, String>) -> Imports {
    let mut reexported = BTreeMap::new();
    let mut named: BTreeMap<&Module, Vec<Module>> = BTreeMap::new();
    for (module, text) in sources {
        let (uses, rest) = uses(text);
        let words: BTreeSet<&str> = rest.split(|letter: char| !is_of_word(letter)).collect();
        let uses = uses.iter().map(|(path, is_public)| (path.as_str(), *is_public));
        for (path, is_public) in uses.chain(paths(&rest).map(|path| (path, false))) {
            let Some(path) = absolute(module, path, sources) else {
                continue;
            };
            let name = path.last().cloned().unwrap_or_default();
            let is_only_passed_on = is_public && path.starts_with(module) && !words.contains(name.as_str());
            if is_public {
                reexported.insert((module.clone(), name), path.clone());
            }
            if !is_only_passed_on {
                named.entry(module).or_default().push(path);
            }
        }
    }
    let declares = |path: &Module| -> Module { declaring(path, sources, &reexported) };
    sources
        .keys()
        .map(|module| {
            let others = named.get(module).into_iter().flatten().map(declares);
            (module.clone(), others.filter(|other| other != module).collect())
        })
        .collect()
}

/// The modules from which a module imports, directly or through others.
pub fn reachable<'a>(imports: &'a Imports, from: &Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for other in &imports[module] {
            if seen.insert(other) {
                next.push(other);
            }
        }
    }
    seen
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

/// The paths of `use` in a source, each with whether the `use` is public, and the remaining text.
fn uses(text: &str) -> (Vec<(String, bool)>, String) {
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
    (paths, rest)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The paths in a text without `use`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !is_of_word(letter) && letter != ':');
    words
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| word.contains("::"))
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
