//! Reader of one parsed file into [`Sources`].

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, FnArg, Item, Pat, Type, UseTree, Visibility};

use crate::sources::{
    Block, Call, Field, Kind, Mention, Method, Module, Names, Sources, Struct, within,
};
use crate::tokens;

/// Reads a file that holds a module.
pub(crate) fn read(sources: &mut Sources, file: usize, module: Names, parsed: &syn::File) {
    if is_test(&parsed.attrs) {
        sources.tests.insert(module.clone());
    }
    let mut reader = Reader { sources, file, module, method: None };
    reader.enter();
    reader.read_items(&parsed.items);
}

/// Methods that pass their receiver on: a call on their result counts as a call on the receiver.
const PASSED_ON: [&str; 6] = ["as_ref", "as_mut", "as_deref", "as_deref_mut", "unwrap", "expect"];

struct Reader<'a> {
    sources: &'a mut Sources,
    file: usize,
    module: Names,
    /// The method that is being read.
    method: Option<Method>,
}

impl Reader<'_> {
    fn enter(&mut self) {
        self.own().file = self.file;
    }

    fn own(&mut self) -> &mut Module {
        self.sources.modules.entry(self.module.clone()).or_default()
    }

    /// Reads the items of a module itself: they are what it defines.
    fn read_items(&mut self, items: &[Item]) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            let name = match item {
                Item::Const(item) => Some((&item.ident, &item.vis)),
                Item::Enum(item) => Some((&item.ident, &item.vis)),
                Item::Fn(item) => Some((&item.sig.ident, &item.vis)),
                Item::Static(item) => Some((&item.ident, &item.vis)),
                Item::Struct(item) => Some((&item.ident, &item.vis)),
                Item::Trait(item) => Some((&item.ident, &item.vis)),
                Item::Type(item) => Some((&item.ident, &item.vis)),
                Item::Union(item) => Some((&item.ident, &item.vis)),
                Item::Macro(item) => {
                    // Names given to a macro may be what it defines.
                    let mut names = Vec::new();
                    tokens::names(item.mac.tokens.clone(), &mut names);
                    names.extend(item.ident.iter().map(ToString::to_string));
                    self.own().defines.extend(names);
                    None
                }
                _ => None,
            };
            if let Some((name, visibility)) = name {
                let name = name.to_string();
                if matches!(visibility, Visibility::Public(_)) {
                    self.sources.public.insert(within(&self.module, &name));
                }
                self.own().defines.insert(name);
            }
        }
        for item in items {
            self.visit_item(item);
        }
    }

    fn mention(&mut self, path: Names, kind: Kind) {
        self.sources.mentions.push(Mention { module: self.module.clone(), path, kind });
    }

    fn call(&mut self, call: Call) {
        if let Some(method) = &mut self.method {
            method.calls.push(call);
        }
    }

    /// Reads tokens that are no list of expressions.
    fn read_tokens(&mut self, stream: TokenStream) {
        let mut found = tokens::Found::default();
        tokens::scan(stream, &mut found);
        for path in found.paths {
            self.mention(path, Kind::Code);
        }
        for call in found.calls {
            self.call(call);
        }
    }
}

/// The paths of a `use`, each with the name it is known by; globs are known by `*`.
fn paths_of(tree: &UseTree, stem: &mut Names, found: &mut Vec<(String, Names)>) {
    match tree {
        UseTree::Path(path) => {
            stem.push(path.ident.to_string());
            paths_of(&path.tree, stem, found);
            stem.pop();
        }
        UseTree::Name(name) => found.push(ended(stem, &name.ident, None)),
        UseTree::Rename(name) => found.push(ended(stem, &name.ident, Some(&name.rename))),
        UseTree::Glob(_) => found.push(("*".to_owned(), stem.clone())),
        UseTree::Group(group) => {
            for tree in &group.items {
                paths_of(tree, stem, found);
            }
        }
    }
}

/// A path and the name it is known by. `a::{self}` is `a`.
fn ended(stem: &Names, last: &syn::Ident, known: Option<&syn::Ident>) -> (String, Names) {
    let path = if last == "self" { stem.clone() } else { within(stem, &last.to_string()) };
    let known = known.map(ToString::to_string);
    (known.or_else(|| path.last().cloned()).unwrap_or_default(), path)
}

fn names_of(path: &syn::Path) -> Names {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// All paths in a type.
fn paths_in(ty: &Type) -> Vec<Names> {
    struct Paths(Vec<Names>);
    impl<'a> Visit<'a> for Paths {
        fn visit_path(&mut self, path: &'a syn::Path) {
            self.0.push(names_of(path));
            visit::visit_path(self, path);
        }
    }
    let mut paths = Paths(Vec::new());
    paths.visit_type(ty);
    paths.0
}

/// The name before the dot of a call, or `self` if that is the whole receiver.
fn receiver(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Paren(inner) => receiver(&inner.expr),
        Expr::Group(inner) => receiver(&inner.expr),
        Expr::Reference(inner) => receiver(&inner.expr),
        Expr::Unary(inner) => receiver(&inner.expr),
        Expr::Try(inner) => receiver(&inner.expr),
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        Expr::MethodCall(call) if PASSED_ON.iter().any(|name| call.method == name) => {
            receiver(&call.receiver)
        }
        _ => None,
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test(attributes(item)) {
            if let Item::Mod(item) = item {
                self.sources.tests.insert(within(&self.module, &item.ident.to_string()));
            }
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let inner = within(&self.module, &item.ident.to_string());
        if matches!(item.vis, Visibility::Public(_)) {
            self.sources.public.insert(inner.clone());
        }
        if let Some((_, items)) = &item.content {
            let outer = std::mem::replace(&mut self.module, inner);
            self.enter();
            self.read_items(items);
            self.module = outer;
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let mut found = Vec::new();
        paths_of(&item.tree, &mut Vec::new(), &mut found);
        let kind = match item.vis {
            Visibility::Inherited => Kind::Import,
            _ => Kind::Reexport,
        };
        for (known, path) in found {
            if known == "*" {
                self.own().globs.push(path.clone());
                if matches!(item.vis, Visibility::Public(_)) {
                    self.own().public_globs.push(path.clone());
                }
                self.mention(path, Kind::Glob);
                continue;
            }
            if matches!(item.vis, Visibility::Public(_)) {
                self.sources.public.insert(within(&self.module, &known));
            }
            self.own().uses.insert(known, path.clone());
            self.mention(path, kind);
        }
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        let fields = item.fields.iter().filter(|field| !is_test(&field.attrs)).enumerate();
        let fields = fields.map(|(at, field)| Field {
            name: field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string),
            is_private: matches!(field.vis, Visibility::Inherited),
            types: paths_in(&field.ty),
        });
        let (module, name) = (self.module.clone(), item.ident.to_string());
        self.sources.structs.push(Struct { module, name, fields: fields.collect() });
        visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let mut of = &*item.self_ty;
        while let Type::Reference(inner) = of {
            of = &inner.elem;
        }
        let is_parameter = |path: &syn::Path| {
            item.generics.type_params().any(|parameter| path.is_ident(&parameter.ident))
        };
        let of = match of {
            Type::Path(of) if of.qself.is_none() && !is_parameter(&of.path) => names_of(&of.path),
            _ => Vec::new(),
        };
        let (module, methods) = (self.module.clone(), Vec::new());
        let at = self.sources.blocks.len();
        self.sources.blocks.push(Block { module, of, methods });
        let outer = self.method.take();
        for inner in &item.items {
            let syn::ImplItem::Fn(function) = inner else { continue };
            if is_test(&function.attrs) {
                continue;
            }
            let name = function.sig.ident.to_string();
            self.method = Some(Method { name, ..Method::default() });
            self.visit_impl_item_fn(function);
            self.sources.blocks[at].methods.extend(self.method.take());
        }
        self.method = outer;
        // The rest of the block names things too.
        self.visit_generics(&item.generics);
        if let Some((of, _)) = &item.trait_ {
            self.visit_path(of);
        }
        self.visit_type(&item.self_ty);
        for inner in &item.items {
            if !matches!(inner, syn::ImplItem::Fn(_)) {
                self.visit_impl_item(inner);
            }
        }
    }

    fn visit_fn_arg(&mut self, argument: &'a FnArg) {
        if let (FnArg::Typed(typed), Some(method)) = (argument, &mut self.method)
            && let Pat::Ident(name) = &*typed.pat
        {
            method.parameters.insert(name.ident.to_string(), paths_in(&typed.ty));
        }
        visit::visit_fn_arg(self, argument);
    }

    fn visit_trait_item(&mut self, item: &'a syn::TraitItem) {
        if !matches!(item, syn::TraitItem::Fn(function) if is_test(&function.attrs)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.mention(names_of(path), Kind::Code);
        }
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'a syn::PatIdent) {
        self.mention(vec![pattern.ident.to_string()], Kind::Code);
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_path(&mut self, expr: &'a syn::ExprPath) {
        let names = names_of(&expr.path);
        match &names[..] {
            [first, method] if first == "Self" => self.call(Call::Own(method.clone())),
            [_, _, ..] if expr.qself.is_none() => self.call(Call::Path(names)),
            _ => {}
        }
        visit::visit_expr_path(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.visit_expr(&call.receiver);
        if let Some(name) = receiver(&call.receiver) {
            self.call(Call::on(name, call.method.to_string()));
        }
        if let Some(arguments) = &call.turbofish {
            self.visit_angle_bracketed_generic_arguments(arguments);
        }
        for argument in &call.args {
            self.visit_expr(argument);
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.visit_path(&call.path);
        let list = Punctuated::<Expr, syn::Token![,]>::parse_terminated;
        let repeated = Punctuated::<Expr, syn::Token![;]>::parse_separated_nonempty;
        let parsed = list.parse2(call.tokens.clone());
        match parsed.map(|list| list.into_iter().collect::<Vec<_>>()) {
            Ok(list) => self.visit_all(list),
            Err(_) => match repeated.parse2(call.tokens.clone()) {
                Ok(list) => self.visit_all(list.into_iter().collect()),
                Err(_) => self.read_tokens(call.tokens.clone()),
            },
        }
    }

    fn visit_item_macro(&mut self, item: &'a syn::ItemMacro) {
        self.read_tokens(item.mac.tokens.clone());
    }

    // Links and restrictions import nothing.
    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_visibility(&mut self, _: &'a Visibility) {}
}

impl Reader<'_> {
    /// Reads expressions that live no longer than this call.
    fn visit_all(&mut self, list: Vec<Expr>) {
        for expr in &list {
            Visit::visit_expr(&mut *self, expr);
        }
    }
}

/// Whether code exists in tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| needs_tests(list.tokens.clone()))
    })
}

/// Whether a condition holds in tests only: `test`, `doctest`, or `all` with one of them.
fn needs_tests(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(name)] => name == "test" || name == "doctest",
        [TokenTree::Ident(name), TokenTree::Group(group)] if name == "all" => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
            inner.split(is_comma).any(|part| needs_tests(part.iter().cloned().collect()))
        }
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
