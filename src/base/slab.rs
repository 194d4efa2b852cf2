//! A slab: values by number, each with a name, in shared chunks that keep their names together.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::chunks::CHUNK;

/// The longest name, in bytes, that is kept among the others of its chunk.
const SHORT: usize = u8::MAX as usize;
/// Bytes of names gone that a chunk may hold beside as many as it has in use.
const SLACK: usize = 256;
/// Names for which a chunk makes room at a time.
const STEP: usize = CHUNK / 8;
/// No entry of a chunk.
const END: u16 = u16::MAX;

/// Values with names. A number is given again once what it stood for is removed.
///
/// Numbers stay below 256 more than the most values there ever were at once. The bytes of names
/// stay below twice those in use and a constant a chunk, however many come and go. Clones share
/// their chunks until one of them is written to.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    chunks: Vec<Arc<Chunk<T>>>,
    /// The chunks that have room.
    open: Vec<u32>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Chunk<T> {
    entries: Vec<Entry<T>>,
    names: String,
    /// Bytes of `names` that are of no entry.
    dead: usize,
    /// The first vacant entry; the others are linked from there.
    vacant: u16,
    /// Names that are not short.
    long: Vec<(u16, Box<str>)>,
}

#[derive(Debug, Clone, Copy)]
struct Entry<T> {
    /// Where the name begins; of a vacant entry, the next vacant one.
    start: u16,
    /// The length of the name.
    len: u8,
    state: State,
    value: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Vacant,
    Short,
    Long,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), open: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Slab<T> {
    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Numbers are below this one.
    pub(crate) fn bound(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    #[inline]
    fn entry(&self, id: u32) -> Option<(&Chunk<T>, &Entry<T>)> {
        let chunk = self.chunks.get(id as usize / CHUNK)?;
        let entry = chunk.entries.get(id as usize % CHUNK)?;
        (entry.state != State::Vacant).then_some((chunk, entry))
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.entry(id).map(|(_, entry)| &entry.value)
    }

    /// The value and its name.
    #[inline]
    pub(crate) fn named(&self, id: u32) -> Option<(&str, &T)> {
        let (chunk, entry) = self.entry(id)?;
        Some((chunk.name(id as usize % CHUNK, entry), &entry.value))
    }

    /// The value for writing; copies its chunk if a clone shares it.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entry(id)?;
        let chunk = Arc::make_mut(&mut self.chunks[id as usize / CHUNK]);
        Some(&mut chunk.entries[id as usize % CHUNK].value)
    }

    /// The name; empty for a number that is not in use.
    #[inline]
    pub(crate) fn name(&self, id: u32) -> &str {
        self.named(id).map_or("", |(name, _)| name)
    }

    /// The number that the next value will have.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        let Some(&number) = self.open.last() else { return (self.chunks.len() * CHUNK) as u32 };
        number * CHUNK as u32 + self.chunks[number as usize].next() as u32
    }

    /// Adds a value; O(1) amortised.
    pub(crate) fn insert(&mut self, name: &str, value: T) -> u32 {
        self.insert_beside([name], value, u32::MAX, |_, _| {})
    }

    /// Adds a value, and writes its number to another one, if there is such. It is less work than
    /// both apart where they are in one chunk, as values added one after another are. The name is
    /// given in parts.
    #[inline]
    pub(crate) fn insert_beside<const N: usize>(
        &mut self,
        name: [&str; N],
        value: T,
        other: u32,
        write: impl FnOnce(&mut T, u32),
    ) -> u32 {
        let number = if let Some(&number) = self.open.last() {
            number
        } else {
            let number = self.chunks.len() as u32;
            self.chunks.push(Arc::new(Chunk::new(number == 0)));
            self.open.push(number);
            number
        };
        let chunk = Arc::make_mut(&mut self.chunks[number as usize]);
        let at = chunk.insert(name, value);
        if chunk.is_full() {
            self.open.pop();
        }
        self.len += 1;
        let id = number * CHUNK as u32 + at as u32;
        if other / CHUNK as u32 == number {
            let entry = chunk.entries.get_mut(other as usize % CHUNK);
            if let Some(entry) = entry.filter(|entry| entry.state != State::Vacant) {
                write(&mut entry.value, id);
            }
        } else if let Some(other) = self.get_mut(other) {
            write(other, id);
        }
        id
    }

    /// Takes a value out; O(1) amortised.
    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        self.entry(id)?;
        let number = id / CHUNK as u32;
        let chunk = Arc::make_mut(&mut self.chunks[number as usize]);
        if chunk.is_full() {
            self.open.push(number);
        }
        self.len -= 1;
        Some(chunk.remove(id as usize % CHUNK))
    }

    /// The values in order of number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(number, chunk)| {
            let first = (number * CHUNK) as u32;
            let numbered = (first..).zip(&chunk.entries);
            numbered.filter(|(_, entry)| entry.state != State::Vacant).map(|(id, e)| (id, &e.value))
        })
    }
}

impl<T: Copy> Chunk<T> {
    fn new(is_first: bool) -> Chunk<T> {
        let entries = if is_first { Vec::new() } else { Vec::with_capacity(CHUNK) };
        Chunk { entries, names: String::new(), dead: 0, vacant: END, long: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.vacant == END && self.entries.len() == CHUNK
    }

    #[inline]
    fn next(&self) -> usize {
        if self.vacant == END { self.entries.len() } else { self.vacant as usize }
    }

    #[inline]
    fn name(&self, at: usize, entry: &Entry<T>) -> &str {
        let start = entry.start as usize;
        match entry.state {
            State::Vacant => "",
            State::Short => self.names.get(start..start + entry.len as usize).unwrap_or(""),
            State::Long => {
                let found = self.long.iter().find(|(of, _)| *of as usize == at);
                found.map_or("", |(_, name)| name)
            }
        }
    }

    fn insert<const N: usize>(&mut self, name: [&str; N], value: T) -> usize {
        let at = self.next();
        let len = name.iter().map(|part| part.len()).sum::<usize>();
        let entry = if len > SHORT {
            self.long.push((at as u16, name.concat().into()));
            Entry { start: 0, len: 0, state: State::Long, value }
        } else {
            if self.names.len() > u16::MAX as usize {
                self.compact();
            }
            let start = self.names.len() as u16;
            if self.names.capacity() - self.names.len() < len {
                self.names.reserve_exact(len * STEP);
            }
            self.names.extend(name);
            Entry { start, len: len as u8, state: State::Short, value }
        };
        match self.entries.get_mut(at) {
            Some(vacant) => {
                self.vacant = vacant.start;
                *vacant = entry;
            }
            None => self.entries.push(entry),
        }
        at
    }

    fn remove(&mut self, at: usize) -> T {
        let entry = &mut self.entries[at];
        let old = *entry;
        (entry.start, entry.state) = (self.vacant, State::Vacant);
        self.vacant = at as u16;
        if old.state == State::Long {
            self.long.retain(|(of, _)| *of as usize != at);
        } else {
            self.dead += old.len as usize;
            if self.dead > SLACK && self.dead > self.names.len() / 2 {
                self.compact();
            }
        }
        old.value
    }

    /// Drops the names of entries that are gone. At most 65,280 bytes remain.
    fn compact(&mut self) {
        let mut names = String::with_capacity(self.names.len() - self.dead + SLACK);
        for entry in self.entries.iter_mut().filter(|entry| entry.state == State::Short) {
            let start = entry.start as usize;
            entry.start = names.len() as u16;
            names.push_str(&self.names[start..start + entry.len as usize]);
        }
        self.names = names;
        self.dead = 0;
    }
}

#[cfg(test)]
mod tests;
