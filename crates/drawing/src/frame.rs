//! The frame around a drawing, and the text in place of an empty one.

use maud::{Markup, html};

use crate::axis::Notch;
use crate::text::{Num, Percent};

/// A frame that scrolls sideways if the drawing is wider, also by keyboard.
pub(crate) fn scrolled(kind: &str, title: &str, inside: Markup) -> Markup {
    html! {
        div class={ "drawing drawing-" (kind) } role="region" aria-label=(title) tabindex="0" {
            (inside)
        }
    }
}

/// A frame for a drawing that fits every page.
pub(crate) fn plain(kind: &str, inside: Markup) -> Markup {
    html! { div class={ "drawing drawing-" (kind) } { (inside) } }
}

/// A sentence in place of an empty drawing.
pub(crate) fn empty(kind: &str, title: &str, sentence: &str) -> Markup {
    html! {
        div class={ "drawing drawing-" (kind) " drawing-empty" } role="note" aria-label=(title) {
            p { (sentence) }
        }
    }
}

/// Wraps something in a link, if there is a target.
pub(crate) fn linked(href: Option<&str>, inside: Markup) -> Markup {
    html! { @if let Some(href) = href { a href=(href) { (inside) } } @else { (inside) } }
}

/// A time axis: labels below `top`, and a line through each of the vertical ranges.
pub(crate) fn time_axis(notches: &[Notch], top: f64, stretches: &[(f64, f64)]) -> Markup {
    html! {
        g class="axis" aria-hidden="true" {
            @for notch in notches {
                @let (x, anchor) = (Percent(notch.position), notch.anchor);
                @for &(from, to) in stretches {
                    line class="axis-line" x1=(x) x2=(x) y1=(Num(from)) y2=(Num(to)) {}
                }
                text class="axis-label" text-anchor=(anchor) x=(x) y=(Num(top + 11.0)) {
                    (notch.label)
                }
                @if let Some(context) = &notch.context {
                    text class="axis-label axis-context" text-anchor=(anchor) x=(x)
                        y=(Num(top + 24.0)) { (context) }
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use jiff::tz::Offset;
    use maud::Markup;

    use crate::axis::Wall;

    /// One hour ahead of UTC, all year.
    pub(crate) fn wall() -> Wall<'static> {
        Wall {
            offset: &|_| Offset::constant(1),
            words: &|at| {
                Offset::constant(1).to_datetime(at).strftime("%-d %b %H:%M:%S").to_string()
            },
        }
    }

    /// Checks what must hold for every drawing: it is well-formed, a strict policy forbids nothing
    /// in it, and every number is one. Returns the drawing with a line for each element.
    pub(crate) fn check(drawn: &Markup) -> String {
        let text = &drawn.0;
        for forbidden in
            [" style=", "<style", "<script", "foreignObject", "NaN", "inf", " on", "=\"-0%"]
        {
            let inside = text.split('<').filter_map(|piece| piece.split('>').next());
            let found = inside.filter(|tag| format!("<{tag}").contains(forbidden)).count();
            assert_eq!(found, 0, "{forbidden} in {text}");
        }
        let mut open = Vec::new();
        let mut lines = String::new();
        for piece in text.split('<').skip(1) {
            let (tag, after) = piece.split_once('>').expect("a tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{text}");
                lines.push_str(&format!("<{tag}>{after}"));
                continue;
            }
            let indent = "  ".repeat(open.len());
            open.push(tag.split(' ').next().expect("a name"));
            lines.push_str(&format!("\n{indent}<{tag}>{after}"));
        }
        assert_eq!(open, Vec::<&str>::new());
        lines.trim().to_owned()
    }
}
