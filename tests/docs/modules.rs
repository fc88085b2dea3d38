//! Modules of a crate form no cycles. Layers, kernels and the engine name no model family.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use acestep_tests::root;
use syn::{
    Attribute, Item, UseTree,
    visit::{self, Visit},
};

use super::{rust_files, text};

/// The crates with modules.
const CRATES: [&str; 11] = [
    "model",
    "import",
    "runtime/engine",
    "runtime/music",
    "runtime/speech",
    "runtime/session",
    "runtime/serve",
    "train",
    "train/demo",
    "cli",
    "tests/proof",
];

/// Names that follow `crate::` in a file, outside its tests.
#[derive(Default)]
struct Names {
    used: BTreeSet<String>,
    /// True if the file is a top-level module, so that `super` is the crate.
    is_top: bool,
}

impl Names {
    fn of(file: &Path, is_top: bool) -> Self {
        let parsed =
            syn::parse_file(&text(file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut names = Self { used: BTreeSet::new(), is_top };
        names.visit_file(&parsed);
        names
    }

    fn is_root(&self, name: &syn::Ident) -> bool {
        name == "crate" || self.is_top && name == "super"
    }
}

/// Returns the identifiers of each path that a `use` names, and its name here; none for a glob.
fn paths(tree: &UseTree) -> Vec<(Vec<String>, Option<String>)> {
    match tree {
        UseTree::Path(path) => {
            let mut below = paths(&path.tree);
            below.iter_mut().for_each(|(names, _)| names.insert(0, path.ident.to_string()));
            below
        }
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], Some(name.ident.to_string()))],
        UseTree::Rename(name) => {
            vec![(vec![name.ident.to_string()], Some(name.rename.to_string()))]
        }
        UseTree::Group(group) => group.items.iter().flat_map(paths).collect(),
        UseTree::Glob(_) => vec![(Vec::new(), None)],
    }
}

/// True if only tests have an item.
fn is_item_of_tests(item: &Item) -> bool {
    match item {
        Item::Mod(item) => is_of_tests(&item.attrs),
        Item::Fn(item) => is_of_tests(&item.attrs),
        Item::Use(item) => is_of_tests(&item.attrs),
        Item::Impl(item) => is_of_tests(&item.attrs),
        _ => false,
    }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.meta.require_list().is_ok_and(|list| {
                let condition = list.tokens.to_string();
                list.path.is_ident("cfg")
                    && (condition == "test" || condition.starts_with("all (test"))
            })
    })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_item_of_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_use_tree(&mut self, tree: &'ast UseTree) {
        match tree {
            UseTree::Path(path) if self.is_root(&path.ident) => {
                let names = paths(&path.tree).into_iter();
                self.used.extend(names.filter_map(|(names, _)| names.into_iter().next()));
            }
            UseTree::Group(_) => visit::visit_use_tree(self, tree),
            _ => (),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| self.is_root(&first.ident)) {
            self.used.extend(segments.next().map(|second| second.ident.to_string()));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        let tokens = of.tokens.to_string();
        let after = tokens.split("crate :: ").skip(1);
        let name = |text: &str| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned)
        };
        self.used.extend(after.filter_map(name));
    }
}

/// Returns the module of each name that the crate root re-exports: `Request` is from `request`.
fn reexports(file: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for item in syn::parse_file(&text(file)).expect("Rust").items {
        if let Item::Use(item) = item
            && let UseTree::Path(path) = &item.tree
        {
            let names = paths(&path.tree).into_iter().filter_map(|(_, name)| name);
            found.extend(names.map(|name| (name, path.ident.to_string())));
        }
    }
    found
}

/// Returns modules that only tests have (`#[cfg(test)] mod measure;`), as paths without endings.
fn of_tests_only(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for file in files {
        let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
        for item in syn::parse_file(&text(file)).expect("Rust").items {
            if let Item::Mod(module) = item
                && is_of_tests(&module.attrs)
            {
                found.insert(folder.join(module.ident.to_string()));
            }
        }
    }
    found
}

/// Returns the modules that each module of a crate uses.
fn uses(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let source = root().join(name).join("src");
    let lib =
        ["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().find(|path| path.is_file());
    let at_root = reexports(&lib.expect("a root"));
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let files = rust_files(&source);
    let of_tests = of_tests_only(&files);
    for file in files {
        if of_tests.iter().any(|module| file.with_extension("").starts_with(module)) {
            continue;
        }
        let inside = file.strip_prefix(&source).expect("a file of the folder");
        let parts: Vec<_> =
            inside.iter().map(|part| part.to_string_lossy().replace(".rs", "")).collect();
        if ["lib", "main"].contains(&parts[0].as_str()) {
            continue;
        }
        let is_top = parts.len() == 1 || parts.len() == 2 && parts[1] == "mod";
        let used = Names::of(&file, is_top).used.into_iter();
        let used = used.map(|name| at_root.get(&name).cloned().unwrap_or(name));
        uses.entry(parts[0].clone()).or_default().extend(used);
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, used) in &mut uses {
        used.retain(|other| other != module && modules.contains(other));
    }
    uses
}

/// Returns the modules that form a cycle.
fn cyclic(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&str> {
    uses.keys()
        .map(String::as_str)
        .filter(|module| reached(uses, module).contains(module))
        .collect()
}

/// Returns all modules that a module uses, directly or indirectly.
fn reached<'a>(uses: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let of = |module: &str| uses.get(module).into_iter().flatten().map(String::as_str);
    let (mut seen, mut open) = (BTreeSet::new(), of(from).collect::<Vec<_>>());
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(of(module));
        }
    }
    seen
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    for name in CRATES {
        let uses = uses(name);
        assert!(uses.len() > 5, "{name}: {uses:?}");
        let found = cyclic(&uses);
        let arrows: Vec<_> =
            uses.iter().filter(|(module, _)| found.contains(module.as_str())).collect();
        assert!(found.is_empty(), "{name}: {found:?}: {arrows:#?}");
    }
}

#[test]
fn a_cycle_is_found_and_a_chain_is_none() {
    let graph = |arrows: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        arrows.iter().map(|(from, to)| ((*from).to_owned(), owned(to))).collect()
    };
    let chain = graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(cyclic(&chain).into_iter().collect::<Vec<_>>(), Vec::<&str>::new());
    let circle = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(cyclic(&circle).into_iter().collect::<Vec<_>>(), ["b", "c"]);
}

/// All identifiers in the paths of a file, outside its tests.
#[derive(Default)]
struct Identifiers(BTreeSet<String>);

impl<'ast> Visit<'ast> for Identifiers {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_item_of_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_use_tree(&mut self, tree: &'ast UseTree) {
        self.0.extend(paths(tree).into_iter().flat_map(|(names, _)| names));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.extend(path.segments.iter().map(|segment| segment.ident.to_string()));
        visit::visit_path(self, path);
    }
}

/// All model families share the layers, the kernels and the engine.
#[test]
fn layers_kernels_and_the_engine_name_no_family() {
    const FAMILIES: [&str; 13] = [
        "acestep",
        "oobleck",
        "qwen3",
        "speech",
        "qwen3_tts",
        "mimi",
        "dia2",
        "magpie",
        "nanocodec",
        "acestep_music",
        "acestep_speech",
        "acestep_import",
        "acestep_train",
    ];
    let mut named = Vec::new();
    let mut seen = 0;
    for (source, folder) in [
        ("model/src", "model/src/nn"),
        ("model/src", "model/src/kernel"),
        ("runtime/engine/src", "runtime/engine/src"),
    ] {
        let of_tests = of_tests_only(&rust_files(&root().join(source)));
        for file in rust_files(&root().join(folder)) {
            if of_tests.iter().any(|module| file.with_extension("").starts_with(module)) {
                continue;
            }
            let mut found = Identifiers::default();
            found.visit_file(&syn::parse_file(&text(&file)).expect("Rust"));
            seen += found.0.len();
            let families = FAMILIES.iter().filter(|family| found.0.contains(**family));
            named.extend(families.map(|family| format!("{}: {family}", file.display())));
        }
    }
    assert!(seen > 2000, "only {seen} identifiers were seen");
    assert_eq!(named, Vec::<String>::new());
}

/// Returns all identifiers in the paths of a module's files, outside their tests.
fn identifiers(module: &str) -> BTreeSet<String> {
    let (mut found, folder) = (Identifiers::default(), root().join(module));
    let mut files = if folder.is_dir() { rust_files(&folder) } else { vec![] };
    files.extend(Some(folder.with_extension("rs")).filter(|file| file.is_file()));
    for file in files {
        found.visit_file(&syn::parse_file(&text(&file)).expect("Rust"));
    }
    found.0
}

/// A family may use shared networks, and knows no other family.
#[test]
fn no_family_names_another() {
    for (folders, others) in [
        (
            &[
                "model/src/acestep",
                "model/src/oobleck",
                "runtime/music/src",
                "import/src/families/acestep",
            ][..],
            &["speech", "qwen3_tts", "dia2", "magpie", "mimi", "nanocodec", "acestep_speech"][..],
        ),
        (&["model/src/speech", "runtime/speech/src"], &["acestep", "oobleck", "acestep_music"]),
        (
            &[
                "model/src/speech/qwen3_tts",
                "runtime/speech/src/qwen3_tts",
                "import/src/qwen3_tts",
                "import/src/families/qwen3_tts",
            ],
            &["acestep", "oobleck", "acestep_music", "dia2", "magpie", "nanocodec"],
        ),
        (
            &[
                "model/src/speech/dia2",
                "runtime/speech/src/dia2",
                "import/src/dia2",
                "import/src/families/dia2",
            ],
            &["acestep", "oobleck", "acestep_music", "qwen3_tts", "magpie", "nanocodec"],
        ),
        (
            &[
                "model/src/speech/magpie",
                "model/src/speech/nanocodec",
                "runtime/speech/src/magpie",
                "import/src/magpie",
                "import/src/families/magpie",
            ],
            &["acestep", "oobleck", "acestep_music", "qwen3_tts", "dia2", "mimi"],
        ),
    ] {
        for folder in folders {
            let found = identifiers(folder);
            assert!(found.len() > 10, "{folder}: {found:?}");
            let named: Vec<_> = others.iter().filter(|other| found.contains(**other)).collect();
            assert!(named.is_empty(), "{folder}: {named:?}");
        }
    }
}

/// The server knows models of speech by the traits of `acestep_session::speech` alone.
#[test]
fn the_server_names_no_family_of_speech() {
    const FAMILIES: [&str; 12] = [
        "qwen3_tts",
        "dia2",
        "magpie",
        "mimi",
        "nanocodec",
        "Qwen3Tts",
        "Dia2",
        "Magpie",
        "SPEECH_MODELS",
        "DIALOGUE_MODELS",
        "MAGPIE_MODELS",
        "TINY_SPEECH",
    ];
    let found = identifiers("runtime/serve/src");
    assert!(found.len() > 1000, "{}", found.len());
    let named: Vec<_> = FAMILIES.iter().filter(|family| found.contains(**family)).collect();
    assert!(named.is_empty(), "{named:?}");
}
