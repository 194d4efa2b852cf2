//! The house: the rules on phalanx's own sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use phalanx_house::Sources;
use phalanx_house::limits::{
    FOLDERS, LAYERS, LINES, MEANT, OPENINGS, OWNERS, PAGE, PLACE, QUEUE_BOXES, SENTENCE, SPREADS,
    TWICE, WALKS,
};
use phalanx_house::rules::words::{self, Paragraph};
use phalanx_house::rules::{boxes, ceilings, imports, links, names, owners, plugins, size, walks};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src")
}

static SOURCES: LazyLock<Sources> = LazyLock::new(|| {
    let sources = Sources::of_folder(&root());
    assert!(sources.len() > 40, "only {} files found", sources.len());
    sources
});

#[track_caller]
fn none(rule: &str, complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{rule}; {} times not:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn imports_point_downwards_only() {
    none("layers import downwards only", &imports::upward(&SOURCES, LAYERS));
}

#[test]
fn files_stay_short() {
    none("files stay short", &size::long_files(&SOURCES, LINES));
}

#[test]
fn no_files_import_each_other() {
    none("files form no circle of imports", &imports::circles_of_files(&SOURCES, MEANT));
}

#[test]
fn circles_that_are_meant_are_there_and_say_why() {
    none("circles that are meant are there", &imports::meant_in_vain(&SOURCES, MEANT));
    for meant in MEANT {
        assert!(!meant.why.is_empty());
        for file in meant.files {
            let text = fs::read_to_string(root().join(file)).expect("the file is there");
            let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
            assert!(head.contains("import each other"), "{file} does not say why");
        }
    }
}

#[test]
fn boxes_of_place_import_downwards_only() {
    none("boxes of place keep their order", &boxes::against_order(&SOURCES, "place", PLACE));
}

#[test]
fn files_of_place_name_each_other_in_no_circle() {
    none("files of place name the file", &imports::circles_as_written(&SOURCES, "place"));
}

#[test]
fn one_public_name_is_one_public_thing() {
    none("a public name stands for one thing, at one path", &names::taken_twice(&SOURCES, TWICE));
    none("names that are allowed twice are", &names::allowed_in_vain(&SOURCES, TWICE));
    assert!(TWICE.iter().all(|own| !own.why.is_empty()));
}

/// Plugins of the crate use what an outsider could write, and no more.
#[test]
fn plugins_import_public_names_only() {
    none("plugins import public names only", &plugins::private_imports(&SOURCES, "plugins"));
}

#[test]
fn boxes_stay_below_their_ceilings() {
    none("folders keep their ceilings", &ceilings::folders(&SOURCES, FOLDERS, &["queue"]));
}

#[test]
fn one_types_impl_stays_in_few_files() {
    let owners = owners::types(&SOURCES, OWNERS);
    none("types keep their ceilings", &ceilings::spreads(&SOURCES, SPREADS, &owners));
}

#[test]
fn boxes_of_queue_are_few_and_form_no_circle() {
    let found = boxes::few_without_circle(&SOURCES, "queue", QUEUE_BOXES);
    none("queue has few boxes, in no circle", &found);
}

#[test]
fn owners_are_there() {
    none("each owner has its folder", &owners::missing(&SOURCES, OWNERS));
}

#[test]
fn fields_of_owners_are_private() {
    none("fields of owners are private", &owners::open_fields(&SOURCES, OWNERS));
}

#[test]
fn impl_of_an_owner_stays_in_its_folder() {
    none("an owner's impl stays in its folder", &owners::scattered_blocks(&SOURCES, OWNERS));
}

#[test]
fn calls_between_files_of_one_type_form_no_circle() {
    let found = owners::circles_of_calls(&SOURCES, "queue");
    none("calls between files of one type form no circle", &found);
}

#[test]
fn walks_of_the_queue_stay_short() {
    let owners = owners::types(&SOURCES, OWNERS);
    for limit in WALKS {
        if let Some(found) = walks::walks(&SOURCES, limit, &owners) {
            println!("{}::{}", limit.of, limit.method);
            println!("  own methods alone: {}", found.own);
            println!("  owners included:   {}", found.with_owners);
        }
    }
    none("walks of the queue stay short", &walks::long(&SOURCES, WALKS, &owners));
}

/// Files with an ending in a folder of the repository and those inside it, by path.
fn texts(folder: &str, ending: &str) -> Vec<(String, String)> {
    let repository = root().join("..");
    let mut found = Vec::new();
    let mut folders = vec![repository.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("the entry is readable").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                let name = path.strip_prefix(&repository).expect("inside").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("the file is text")));
            }
        }
    }
    found.sort();
    found
}

static PAGES: LazyLock<Vec<(String, Vec<Paragraph>)>> = LazyLock::new(|| {
    let page = |name: &str| {
        let text = fs::read_to_string(root().join("..").join(name)).expect("the page is there");
        (name.to_owned(), words::of_page(&text))
    };
    let mut pages: Vec<_> = texts("docs", "md")
        .iter()
        .map(|(name, text)| (name.clone(), words::of_page(text)))
        .collect();
    assert!(pages.len() > 10, "only {} pages found", pages.len());
    pages.extend(["README.md", "CONTRIBUTING.md"].map(page));
    pages.push(page("examples/kubernetes-scheduler/README.md"));
    pages
});

fn changes() -> Vec<Paragraph> {
    let text = fs::read_to_string(root().join("../CHANGELOG.md")).expect("the changelog is there");
    words::of_unreleased(&text)
}

/// Doc comments below a folder.
fn comments(folder: &str) -> Vec<(String, Vec<Paragraph>)> {
    let files = texts(folder, "rs");
    assert!(!files.is_empty(), "no file in {folder}");
    files.into_iter().map(|(name, text)| (name, words::of_source(&text))).collect()
}

#[test]
fn paragraphs_open_with_the_thing() {
    let sources = ["src", "examples", "tests/it", "tests/examples", "benches", "bindings", "fuzz"];
    let sources = sources.into_iter().flat_map(comments);
    let pages = PAGES.iter().cloned().chain([("CHANGELOG.md".to_owned(), changes())]);
    let bad = |(file, paragraphs): (String, Vec<Paragraph>)| {
        words::bad_openings(&file, &paragraphs, OPENINGS)
    };
    let found: Vec<String> = sources.chain(pages).flat_map(bad).collect();
    none("a paragraph opens with the thing that it is about", &found);
}

#[test]
fn sentences_stay_short() {
    let pages = PAGES.iter().cloned().chain([("CHANGELOG.md".to_owned(), changes())]);
    let long = |(file, paragraphs): (String, Vec<Paragraph>)| {
        words::long_sentences(&file, &paragraphs, SENTENCE)
    };
    let found: Vec<String> = comments("src").into_iter().chain(pages).flat_map(long).collect();
    none("sentences stay short", &found);
}

#[test]
fn pages_stay_short() {
    let long =
        |(file, paragraphs): &(String, Vec<Paragraph>)| words::long_page(file, paragraphs, PAGE);
    none("pages stay short", &PAGES.iter().filter_map(long).collect::<Vec<_>>());
}

#[test]
fn pages_of_the_documentation_lead_to_each_other() {
    let lib = fs::read_to_string(root().join("lib.rs")).expect("the file is there");
    let (pages, labels) = (links::pages(&lib), links::labels(&lib));
    assert!(pages.len() > 10 && labels.len() > 10, "{pages:?} {labels:?}");
    let lost = |page: &&str| {
        let text =
            fs::read_to_string(root().join("../docs").join(page)).expect("the page is there");
        links::lost(page, &text, &labels)
    };
    none("links of pages lead to modules", &pages.iter().flat_map(lost).collect::<Vec<_>>());
}
