//! The text of HTML, as a page shows it: words end where blocks and cells do, and not where a tag only changes how letters look.
//!
//! What elements mean is HTML's standard; styles are not read. An element of no standard ends words.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use std::convert::Infallible;

/// Elements within a word.
const INLINE: &str = "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark nobr q s samp small span strike \
    strong sub sup time tt u var wbr";
/// Elements that have lines of their own.
const LINES: &str = "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption \
    figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option p \
    pre section summary table tbody tfoot thead title tr ul";
/// Elements whose content is no text.
const HIDDEN: &str = "iframe noembed script style template";
/// Elements whose white space is shown as it is.
const PREFORMATTED: &str = "listing pre textarea xmp";
/// What is shown where there are no scripts: its tags come as text.
const NO_SCRIPT: &[u8] = b"noscript";
/// HTML's white space.
const WHITE: [char; 5] = [' ', '\t', '\n', '\r', '\u{c}'];

/// The text of a page or of a part of one.
pub(super) fn text(html: &str) -> String {
    let mut page = Page::default();
    page.read(html);
    page.text
}

/// Whether a name is one of a list.
fn is_of(list: &str, name: &[u8]) -> bool {
    list.as_bytes().split(|byte| *byte == b' ').any(|listed| listed == name)
}

/// What is between a word and the next.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
}

/// The text so far.
#[derive(Default)]
struct Page {
    text: String,
    /// Behind it.
    gap: Gap,
    /// Elements one within the other whose white space stays.
    preformatted: usize,
    /// The element that hides what is in it, and how many of its name are open.
    hidden: Option<(Vec<u8>, usize)>,
    /// What is shown where there are no scripts comes next.
    is_no_script: bool,
    /// That is being read.
    in_no_script: bool,
}

impl Page {
    fn read(&mut self, html: &str) {
        let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
            self.event(&event);
            None::<Infallible>
        });
        // What a script or a style says is none of its page's tags.
        emitter.naively_switch_states(true);
        let Ok(()) = Tokenizer::new_with_emitter(html, emitter).finish();
    }

    fn event(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.tag(name, true),
            CallbackEvent::EndTag { name } => self.tag(name, false),
            CallbackEvent::String { value } if self.hidden.is_none() => {
                let value = String::from_utf8_lossy(value);
                if self.is_no_script { self.no_script(&value) } else { self.characters(&value) }
            }
            CallbackEvent::String { .. }
            | CallbackEvent::AttributeName { .. }
            | CallbackEvent::AttributeValue { .. }
            | CallbackEvent::CloseStartTag { .. }
            | CallbackEvent::Comment { .. }
            | CallbackEvent::Doctype { .. }
            | CallbackEvent::Error(_) => {}
        }
    }

    fn tag(&mut self, name: &[u8], opens: bool) {
        if let Some((hiding, open)) = &mut self.hidden {
            if hiding == name {
                *open = if opens { *open + 1 } else { *open - 1 };
                if *open == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        if opens && (is_of(HIDDEN, name) || (self.in_no_script && name == NO_SCRIPT)) {
            self.hidden = Some((name.to_owned(), 1));
        }
        self.is_no_script = opens && name == NO_SCRIPT;
        if is_of(PREFORMATTED, name) {
            self.preformatted =
                if opens { self.preformatted + 1 } else { self.preformatted.saturating_sub(1) };
        }
        let gap = if is_of(INLINE, name) {
            Gap::None
        } else if is_of(LINES, name) {
            Gap::Line
        } else {
            Gap::Space
        };
        self.gap = self.gap.max(gap);
    }

    /// Reads what came as text. It cannot have others in it, but for one that is not closed, which has no more of the page.
    fn no_script(&mut self, html: &str) {
        (self.is_no_script, self.in_no_script) = (false, true);
        self.read(html);
        (self.hidden, self.in_no_script) = (None, false);
    }

    fn characters(&mut self, value: &str) {
        if self.preformatted > 0 {
            self.end_gap();
            self.text.push_str(value);
            return;
        }
        for piece in value.split_inclusive(WHITE) {
            let word = piece.trim_end_matches(WHITE);
            if !word.is_empty() {
                self.end_gap();
                self.text.push_str(word);
            }
            if word.len() < piece.len() {
                self.gap = self.gap.max(Gap::Space);
            }
        }
    }

    fn end_gap(&mut self) {
        match std::mem::take(&mut self.gap) {
            Gap::Space if !self.text.is_empty() => self.text.push(' '),
            Gap::Line if !self.text.is_empty() => self.text.push('\n'),
            Gap::None | Gap::Space | Gap::Line => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use proptest::prelude::*;

    #[test]
    fn words_end_with_blocks_and_cells_and_lines_with_lines() {
        for (html, shown) in [
            ("<h2>boldword</h2><p>alpha</p>", "boldword\nalpha"),
            ("<div>a</div><div>b</div>", "a\nb"),
            ("<table><tr><td>x</td><td>y</td></tr><tr><th>z</table>", "x y\nz"),
            ("<ul><li>alpha<li>beta</ul>gamma<br/>delta", "alpha\nbeta\ngamma\ndelta"),
            ("<b>boldword</b> alpha", "boldword alpha"),
            ("<B CLASS=x>bold</B>word<img src=a>x<x-y>z</x-y>", "boldword x z"),
            ("a  b\n c<pre>d  e\n f</pre>g", "a b c\nd  e\n f\ng"),
            ("<option>a<option>b", "a\nb"),
            ("super<wbr>cali<sub>2</sub><!-- <p> -->fragi", "supercali2fragi"),
        ] {
            assert_eq!(text(html), shown, "{html}");
        }
    }

    #[test]
    fn what_is_no_text_is_left_out_and_what_only_looks_so_is_not() {
        for (html, shown) in [
            ("<!doctype html><head><title>A &amp; B</title><style>p{}</style></head>c", "A & B\nc"),
            ("a<script type=\"x\">if (a<b) '<p>'</script>b", "a b"),
            ("a<template><template>x</template>y</template>b", "a b"),
            ("a<noscript><p>b</p><template>c</noscript>d", "a\nb\nd"),
            ("a<noscript>b<noscript>c<noscript></noscript>d", "a b d"),
            ("x < y &lt;b&gt; 1<2 &#119;&nbsp;&bogus;", "x < y <b> 1<2 w\u{a0}&bogus;"),
            ("a <b", "a"),
            ("", ""),
        ] {
            assert_eq!(text(html), shown, "{html}");
        }
    }

    proptest! {
        #[test]
        fn no_page_is_too_wrong(
            parts in proptest::collection::vec(
                prop_oneof![
                    "[a-c<>/&;! é\n-]{0,4}",
                    prop::sample::select(vec![
                        "<noscript>", "</noscript>", "<template>", "</template>", "<pre>", "</pre>", "<title>", "<p>",
                        "</script>", "<script ", "<style>", "&amp;", "<![CDATA[", "<textarea>", "</textarea>",
                    ]).prop_map(str::to_owned),
                ],
                0..30,
            ),
        ) {
            text(&parts.concat());
        }
    }
}
