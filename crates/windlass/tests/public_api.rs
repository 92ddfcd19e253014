//! What the crate shows, as a list (`tests/public-api.txt`): whoever changes it sees that, and so does whoever reviews it.
//! `make public-api` writes it anew.
//!
//! The sources are read, not what the compiler makes of them, so that this needs no other toolchain: modules, items, fields,
//! variants, methods and implementations that are public from `lib.rs` on, what is re-exported from within the crate where
//! it is shown, and what is re-exported from elsewhere by its path. What is hidden from the documentation is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, ItemUse, TraitItem, Type, UseTree, Visibility};

/// A path from the crate's root, or one that begins with another crate.
type Names = Vec<String>;

/// All modules of the crate, by path.
type Modules = BTreeMap<Names, Vec<Item>>;

#[test]
fn what_the_crate_shows_is_what_the_list_says() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public-api.txt");
    let shown: String = Crate::read().shown().lines.into_iter().map(|it| it + "\n").collect();
    if std::env::var_os("WINDLASS_WRITE_PUBLIC_API").is_some() {
        fs::write(&list, &shown).unwrap();
    }
    let listed = fs::read_to_string(&list).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    let (listed, shown) = (lines(&listed), lines(&shown));
    let gone: Vec<&String> = listed.difference(&shown).collect();
    let new: Vec<&String> = shown.difference(&listed).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "what the crate shows has changed: gone {gone:#?}, new {new:#?}; if that is meant, run \
         `make public-api`, and say in CHANGELOG.md what embedding programs have to do"
    );
}

/// Whoever embeds the crate needs no other of this workspace, nor a name for what is behind the door.
#[test]
fn everything_that_is_named_where_all_can_see_can_be_named_by_all() {
    let shown = Crate::read().shown();
    let mut wrong: Vec<String> = Vec::new();
    for (what, named) in &shown.named {
        let is_ours = named[0] == "crate" || named[0].starts_with("windlass_");
        let (_, module) = named.split_last().expect("a path has a last name");
        // Alone, or with all of its module.
        let ways = [named.clone(), module.to_vec(), child(module, "*")];
        let is_shown = ways.iter().any(|it| shown.can_be_named.contains(it));
        if is_ours && !is_shown {
            wrong.push(format!("{what} names {}", named.join("::")));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

struct Crate {
    modules: Modules,
}

#[derive(Default)]
struct Shown {
    lines: BTreeSet<String>,
    /// What is named in each line, by its path.
    named: Vec<(String, Names)>,
    /// What can be named from outside.
    can_be_named: BTreeSet<Names>,
}

impl Crate {
    fn read() -> Self {
        let mut modules = Modules::new();
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
        read(&mut modules, vec!["crate".into()], &source.join("lib.rs"), &source);
        Self { modules }
    }

    fn shown(&self) -> Shown {
        let mut shown = Shown::default();
        self.module(&mut shown, &["crate".into()], "windlass");
        shown
    }

    fn module(&self, shown: &mut Shown, module: &[String], title: &str) {
        for item in &self.modules[module] {
            match item {
                Item::Mod(it) if is_public(&it.vis) && !is_hidden(&it.attrs) => {
                    let title = format!("{title}::{}", it.ident);
                    shown.lines.insert(format!("mod {title}"));
                    self.module(shown, &child(module, &it.ident.to_string()), &title);
                }
                Item::Use(it) if is_public(&it.vis) => {
                    for (path, name) in uses(it) {
                        if name == "*" {
                            shown.can_be_named.insert(child(module, "*"));
                        }
                        self.reexport(shown, &self.absolute(module, &path), &format!("{title}::{name}"));
                    }
                }
                _ => {
                    if let Some(name) = public_name(item) {
                        self.item(shown, module, item, &format!("{title}::{name}"));
                    }
                }
            }
        }
    }

    /// What is re-exported from within the crate is shown where it is; the rest is shown as what it is called there.
    fn reexport(&self, shown: &mut Shown, path: &[String], title: &str) {
        let is_new = shown.can_be_named.insert(path.to_vec());
        match self.find(path) {
            Some((module, item)) if is_new => self.item(shown, &module, item, title),
            Some(_) | None => _ = shown.lines.insert(format!("use {} as {title}", path.join("::"))),
        }
    }

    /// The item of this path and the module that it is in, re-exports followed; `None` if it is not of this crate.
    fn find(&self, path: &[String]) -> Option<(Names, &Item)> {
        let (name, module) = path.split_last()?;
        let items = self.modules.get(module)?;
        if let Some(item) = items.iter().find(|it| public_name(it).as_ref() == Some(name)) {
            return Some((module.to_vec(), item));
        }
        self.find(&self.imported(module, name)?)
    }

    /// What a name stands for in a module by its imports.
    fn imported(&self, module: &[String], name: &str) -> Option<Names> {
        let imports =
            self.modules.get(module)?.iter().filter_map(|it| if let Item::Use(it) = it { Some(it) } else { None });
        let (path, _) = imports.flat_map(uses).find(|(_, it)| it == name)?;
        // `use quote::quote` speaks of another crate: a name does not lead to itself.
        Some(if path[0] == name { path } else { self.absolute(module, &path) })
    }

    /// A path as a module writes it, from the root of its crate, re-exports within this crate followed.
    fn absolute(&self, module: &[String], path: &[String]) -> Names {
        let (first, rest) = path.split_first().expect("a path has a first name");
        let beginning = match first.as_str() {
            "crate" => vec!["crate".into()],
            "self" => module.to_vec(),
            "super" => module[..module.len() - 1].to_vec(),
            name if self.modules.contains_key(&child(module, name)) || self.defines(module, name) => {
                child(module, name)
            }
            name => match self.imported(module, name) {
                Some(imported) => imported,
                None => vec![name.into()],
            },
        };
        let whole: Names = beginning.into_iter().chain(rest.iter().cloned()).collect();
        match whole.split_last() {
            Some((name, module)) if self.modules.contains_key(module) && !self.defines(module, name) => {
                self.imported(module, name).unwrap_or(whole)
            }
            _ => whole,
        }
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        self.modules.get(module).into_iter().flatten().any(|it| own_name(it).is_some_and(|it| it == name))
    }

    fn item(&self, shown: &mut Shown, module: &[String], item: &Item, title: &str) {
        let name = own_name(item).expect("a public item has a name");
        shown.can_be_named.insert(child(module, &name));
        let mut line = |kind: &str, rest: String, names: &dyn ToTokens| {
            let line = format!("{kind} {rest}");
            shown.named.extend(self.named(module, names).into_iter().map(|it| (line.clone(), it)));
            shown.lines.insert(line);
        };
        let grows = |attributes: &[Attribute]| if has(attributes, "non_exhaustive") { " (non-exhaustive)" } else { "" };
        match item {
            Item::Fn(it) => line("fn", format!("{title}{}", signature(&it.sig)), &it.sig),
            Item::Const(it) => line("const", format!("{title}: {}", text(&it.ty)), &it.ty),
            Item::Type(it) => line("type", format!("{title}{} = {}", text(&it.generics), text(&it.ty)), &it.ty),
            Item::Struct(it) => {
                line("struct", format!("{title}{}{}", text(&it.generics), grows(&it.attrs)), &it.generics);
                for field in it.fields.iter().filter(|it| is_public(&it.vis)) {
                    let name = field.ident.as_ref().map_or_else(|| "0".into(), ToString::to_string);
                    line("field", format!("{title}::{name}: {}", text(&field.ty)), &field.ty);
                }
            }
            Item::Enum(it) => {
                line("enum", format!("{title}{}{}", text(&it.generics), grows(&it.attrs)), &it.generics);
                for variant in &it.variants {
                    let fields = match &variant.fields {
                        Fields::Unit => String::new(),
                        Fields::Unnamed(it) => format!("({})", list(it.unnamed.iter().map(|it| text(&it.ty)))),
                        Fields::Named(it) => {
                            let field = |it: &syn::Field| format!("{}: {}", text(&it.ident), text(&it.ty));
                            format!(" {{ {} }}", list(it.named.iter().map(field)))
                        }
                    };
                    let types: Vec<&Type> = variant.fields.iter().map(|it| &it.ty).collect();
                    line("variant", format!("{title}::{}{fields}", variant.ident), &quote::quote!((#(#types),*)));
                }
            }
            Item::Trait(it) => {
                line("trait", format!("{title}: {}", text(&it.supertraits)), &it.supertraits);
                for method in it.items.iter().filter_map(|it| if let TraitItem::Fn(it) = it { Some(it) } else { None })
                {
                    line("fn", format!("{title}::{}{}", method.sig.ident, signature(&method.sig)), &method.sig);
                }
            }
            _ => panic!("{title} is of a kind that is not listed yet"),
        }
        self.implementations(shown, &child(module, &name), title);
    }

    /// What is implemented for a type, wherever that stands.
    fn implementations(&self, shown: &mut Shown, of: &[String], title: &str) {
        for (module, items) in &self.modules {
            for it in items.iter().filter_map(|it| if let Item::Impl(it) = it { Some(it) } else { None }) {
                if self.implemented(module, it).as_deref() != Some(of) {
                    continue;
                }
                if let Some((_, of, _)) = &it.trait_ {
                    shown.lines.insert(format!("impl {} for {title}", text(of)));
                    continue;
                }
                for item in &it.items {
                    if let ImplItem::Fn(it) = item
                        && is_public(&it.vis)
                        && !is_hidden(&it.attrs)
                    {
                        let line = format!("fn {title}::{}{}", it.sig.ident, signature(&it.sig));
                        shown.named.extend(self.named(module, &it.sig).into_iter().map(|it| (line.clone(), it)));
                        shown.lines.insert(line);
                    }
                    if let ImplItem::Const(it) = item
                        && is_public(&it.vis)
                    {
                        shown.lines.insert(format!("const {title}::{}: {}", it.ident, text(&it.ty)));
                    }
                }
            }
        }
    }

    fn implemented(&self, module: &[String], it: &ItemImpl) -> Option<Names> {
        let Type::Path(it) = &*it.self_ty else { return None };
        let path: Names = it.path.segments.iter().map(|it| it.ident.to_string()).collect();
        Some(self.absolute(module, &path))
    }

    /// The types that a signature names.
    fn named(&self, module: &[String], of: &dyn ToTokens) -> Vec<Names> {
        struct Paths(Vec<Names>);
        impl<'ast> Visit<'ast> for Paths {
            fn visit_path(&mut self, path: &'ast syn::Path) {
                self.0.push(path.segments.iter().map(|it| it.ident.to_string()).collect());
                visit::visit_path(self, path);
            }
        }
        let mut paths = Paths(Vec::new());
        let tokens = of.to_token_stream();
        if let Ok(signature) = syn::parse2::<syn::Signature>(tokens.clone()) {
            paths.visit_signature(&signature);
        } else if let Ok(it) = syn::parse2::<Type>(tokens) {
            paths.visit_type(&it);
        }
        let ours = paths.0.iter().map(|it| self.absolute(module, it));
        ours.filter(|it| it[0] != "crate" || it.len() > 1).collect()
    }
}

/// Reads a module and those below it, without tests.
fn read(modules: &mut Modules, module: Names, file: &Path, below: &Path) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
    take(modules, module, items, below);
}

fn take(modules: &mut Modules, module: Names, mut items: Vec<Item>, below: &Path) {
    let is_test = |it: &syn::ItemMod| it.attrs.iter().any(|it| text(it) == "#[cfg(test)]");
    for item in &mut items {
        let Item::Mod(it) = item else { continue };
        let name = it.ident.to_string();
        let (path, below) = (child(&module, &name), below.join(&name));
        match it.content.take() {
            _ if is_test(it) => {}
            Some((_, items)) => take(modules, path, items, &below),
            None => read(modules, path, &below.with_extension("rs"), &below),
        }
    }
    modules.insert(module, items);
}

fn child(module: &[String], name: &str) -> Names {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The paths that are imported, and as what.
fn uses(it: &ItemUse) -> Vec<(Names, String)> {
    fn flatten(tree: &UseTree, before: &[String], all: &mut Vec<(Names, String)>) {
        match tree {
            UseTree::Path(it) => flatten(&it.tree, &child(before, &it.ident.to_string()), all),
            UseTree::Name(it) if it.ident == "self" => {
                all.push((before.to_vec(), before.last().cloned().unwrap_or_default()));
            }
            UseTree::Name(it) => all.push((child(before, &it.ident.to_string()), it.ident.to_string())),
            UseTree::Rename(it) => all.push((child(before, &it.ident.to_string()), it.rename.to_string())),
            UseTree::Glob(_) => all.push((child(before, "*"), "*".into())),
            UseTree::Group(it) => it.items.iter().for_each(|it| flatten(it, before, all)),
        }
    }
    let mut all = Vec::new();
    flatten(&it.tree, &[], &mut all);
    all
}

fn own_name(item: &Item) -> Option<String> {
    named(item).map(|(name, _)| name)
}

fn public_name(item: &Item) -> Option<String> {
    named(item).filter(|(_, is_public)| *is_public).map(|(name, _)| name)
}

/// What an item that is no module is called, and whether it is public.
fn named(item: &Item) -> Option<(String, bool)> {
    let (name, visibility) = match item {
        Item::Const(it) => (&it.ident, &it.vis),
        Item::Enum(it) => (&it.ident, &it.vis),
        Item::Fn(it) => (&it.sig.ident, &it.vis),
        Item::Static(it) => (&it.ident, &it.vis),
        Item::Struct(it) => (&it.ident, &it.vis),
        Item::Trait(it) => (&it.ident, &it.vis),
        Item::Type(it) => (&it.ident, &it.vis),
        _ => return None,
    };
    Some((name.to_string(), is_public(visibility)))
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| text(it) == "#[doc(hidden)]")
}

fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|it| it.path().is_ident(name))
}

/// A signature without its name.
fn signature(it: &syn::Signature) -> String {
    let asynchronous = if it.asyncness.is_some() { " async" } else { "" };
    let (generics, inputs, output) = (text(&it.generics), list(it.inputs.iter().map(text)), text(&it.output));
    let condition = text(&it.generics.where_clause);
    [&format!("{generics}({inputs})"), &*output, &*condition].join(" ").trim_end().to_owned() + asynchronous
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// Tokens as one would write them.
fn text(tokens: &(impl ToTokens + ?Sized)) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, tight) in
        [(" :: ", "::"), (":: ", "::"), (" <", "<"), ("< ", "<"), (" >", ">"), ("& ", "&"), (" ,", ","), (" :", ":")]
    {
        text = text.replace(spaced, tight);
    }
    for (spaced, tight) in [("( ", "("), (" )", ")"), (" (", "("), ("[ ", "["), (" ]", "]"), (" [", "["), ("# [", "#[")]
    {
        text = text.replace(spaced, tight);
    }
    text
}
