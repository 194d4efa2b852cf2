//! Regular expressions, as names of nodes are matched by: those of RE2 without flags, matched
//! anywhere in a text, in time O(text · pattern).

use alloc::vec;
use alloc::vec::Vec;

/// The most steps that a pattern comes to.
const MOST: usize = 10_000;
/// The deepest nesting of groups.
const DEEPEST: usize = 50;

/// A pattern as steps: an automaton without memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct Pattern {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A character of one of these ranges, or of none of them.
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    Begin,
    End,
    /// Goes on at either place.
    Fork(usize, usize),
    Jump(usize),
    Done,
}

impl Pattern {
    /// The pattern of a text; `None` if it is none, or not one of those that are read.
    pub(in crate::kubernetes) fn new(text: &str) -> Option<Pattern> {
        let mut parser = Parser { rest: text.chars().collect(), at: 0, steps: Vec::new() };
        parser.alternatives(0)?;
        if parser.at < parser.rest.len() {
            return None;
        }
        parser.push(Step::Done)?;
        Some(Pattern { steps: parser.steps })
    }

    /// Whether a text has a part that matches.
    pub(in crate::kubernetes) fn matches(&self, text: &str) -> bool {
        let characters: Vec<char> = text.chars().collect();
        let mut now = Vec::new();
        for at in 0..=characters.len() {
            let mut seen = vec![false; self.steps.len()];
            for step in core::mem::take(&mut now) {
                self.follow(step, at, characters.len(), &mut seen);
            }
            self.follow(0, at, characters.len(), &mut seen);
            let reached = || seen.iter().zip(&self.steps).enumerate().filter(|(_, (on, _))| **on);
            if reached().any(|(_, (_, step))| *step == Step::Done) {
                return true;
            }
            let Some(character) = characters.get(at) else { return false };
            now = reached()
                .filter(|(_, (_, step))| step.takes(*character))
                .map(|(index, _)| index + 1)
                .collect();
        }
        false
    }

    /// Marks what is reached from a step without taking a character.
    fn follow(&self, step: usize, at: usize, end: usize, seen: &mut [bool]) {
        let mut open = vec![step];
        while let Some(step) = open.pop() {
            if core::mem::replace(&mut seen[step], true) {
                continue;
            }
            match self.steps[step] {
                Step::Fork(one, other) => open.extend([one, other]),
                Step::Jump(to) => open.push(to),
                Step::Begin if at == 0 => open.push(step + 1),
                Step::End if at == end => open.push(step + 1),
                _ => {}
            }
        }
    }
}

impl Step {
    fn takes(&self, character: char) -> bool {
        match self {
            Step::Class { ranges, negated } => {
                let within = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                within != *negated
            }
            _ => false,
        }
    }
}

struct Parser {
    rest: Vec<char>,
    at: usize,
    steps: Vec<Step>,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn eat(&mut self, sign: char) -> bool {
        let is_next = self.peek() == Some(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn push(&mut self, step: Step) -> Option<()> {
        (self.steps.len() < MOST).then(|| self.steps.push(step))
    }

    fn alternatives(&mut self, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let begin = self.steps.len();
        self.sequence(depth)?;
        while self.eat('|') {
            let one = self.cut(begin);
            let behind = begin + 1 + one.len() + 1;
            self.push(Step::Fork(begin + 1, behind))?;
            self.paste(&one, begin, begin + 1)?;
            let jump = self.steps.len();
            self.push(Step::Jump(0))?;
            self.sequence(depth)?;
            self.steps[jump] = Step::Jump(self.steps.len());
        }
        Some(())
    }

    fn sequence(&mut self, depth: usize) -> Option<()> {
        while let Some(next) = self.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            let begin = self.steps.len();
            self.atom(depth)?;
            self.repeats(begin)?;
        }
        Some(())
    }

    fn atom(&mut self, depth: usize) -> Option<()> {
        let next = self.peek()?;
        self.at += 1;
        match next {
            '(' => {
                if self.eat('?') && !(self.eat(':')) {
                    return None;
                }
                self.alternatives(depth + 1)?;
                self.eat(')').then_some(())
            }
            '.' => self.push(Step::Class { ranges: vec![('\n', '\n')], negated: true }),
            '^' => self.push(Step::Begin),
            '$' => self.push(Step::End),
            '[' => {
                let class = self.class()?;
                self.push(class)
            }
            '\\' => {
                let (ranges, negated) = self.escape()?;
                self.push(Step::Class { ranges, negated })
            }
            '*' | '+' | '?' | '{' => None,
            other => self.push(Step::Class { ranges: vec![(other, other)], negated: false }),
        }
    }

    fn escape(&mut self) -> Option<(Vec<(char, char)>, bool)> {
        let next = self.peek()?;
        self.at += 1;
        let word = vec![('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
        let space = vec![(' ', ' '), ('\t', '\n'), ('\u{c}', '\r')];
        Some(match next {
            'd' => (vec![('0', '9')], false),
            'D' => (vec![('0', '9')], true),
            'w' => (word, false),
            'W' => (word, true),
            's' => (space, false),
            'S' => (space, true),
            other if other.is_ascii_punctuation() => (vec![(other, other)], false),
            _ => return None,
        })
    }

    fn class(&mut self) -> Option<Step> {
        let negated = self.eat('^');
        let mut ranges = Vec::new();
        loop {
            let next = self.peek()?;
            self.at += 1;
            let low = match next {
                ']' if !ranges.is_empty() => return Some(Step::Class { ranges, negated }),
                '\\' => {
                    let (inner, outside) = self.escape()?;
                    if outside || inner.len() != 1 || inner[0].0 != inner[0].1 {
                        if outside {
                            return None;
                        }
                        ranges.extend(inner);
                        continue;
                    }
                    inner[0].0
                }
                '[' if self.peek() == Some(':') => return None,
                other => other,
            };
            let is_range = self.peek() == Some('-')
                && self.rest.get(self.at + 1).is_some_and(|high| *high != ']');
            if is_range {
                self.at += 1;
                let high = self.peek()?;
                self.at += 1;
                if high == '\\' || high < low {
                    return None;
                }
                ranges.push((low, high));
            } else {
                ranges.push((low, low));
            }
        }
    }

    /// Applies the quantifiers behind the steps from one on.
    fn repeats(&mut self, begin: usize) -> Option<()> {
        while let Some(next) = self.peek() {
            let (least, most) = match next {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => {
                    self.at += 1;
                    self.bounds()?
                }
                _ => return Some(()),
            };
            if next != '{' {
                self.at += 1;
            }
            // A lazy quantifier matches the same texts.
            self.eat('?');
            self.repeat(begin, least, most)?;
        }
        Some(())
    }

    fn bounds(&mut self) -> Option<(usize, Option<usize>)> {
        let least = self.number()?;
        let most = if self.eat(',') {
            if self.peek() == Some('}') { None } else { Some(self.number()?) }
        } else {
            Some(least)
        };
        let sound = most.is_none_or(|most| least <= most);
        (self.eat('}') && sound).then_some((least, most))
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|next| next.to_digit(10)) {
            self.at += 1;
            number = Some(number.unwrap_or(0) * 10 + digit as usize).filter(|n| *n <= 1_000);
            number?;
        }
        number
    }

    fn repeat(&mut self, begin: usize, least: usize, most: Option<usize>) -> Option<()> {
        let once = self.cut(begin);
        for _ in 0..least {
            let at = self.steps.len();
            self.paste(&once, begin, at)?;
        }
        match most {
            None => {
                let fork = self.steps.len();
                self.push(Step::Fork(fork + 1, fork + once.len() + 2))?;
                self.paste(&once, begin, fork + 1)?;
                self.push(Step::Jump(fork))
            }
            Some(most) => (least..most).try_for_each(|_| {
                let fork = self.steps.len();
                self.push(Step::Fork(fork + 1, fork + once.len() + 1))?;
                self.paste(&once, begin, fork + 1)
            }),
        }
    }

    fn cut(&mut self, begin: usize) -> Vec<Step> {
        self.steps.split_off(begin)
    }

    /// Adds steps that were at one place at another.
    fn paste(&mut self, steps: &[Step], from: usize, to: usize) -> Option<()> {
        let moved = |at: usize| at + to - from;
        for step in steps {
            self.push(match step {
                Step::Fork(one, other) => Step::Fork(moved(*one), moved(*other)),
                Step::Jump(at) => Step::Jump(moved(*at)),
                other => other.clone(),
            })?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
