//! Resources: named amounts.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::Problem;
use crate::base::{Quantity, QuantityError};

/// The processor; amounts are thousandths of a core.
pub const CPU: &str = "cpu";
/// Memory; amounts are bytes.
pub const MEMORY: &str = "memory";
/// Local disk; amounts are bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// How many pods a node may run. A node that does not list it has no limit.
pub const PODS: &str = "pods";

/// The CPU that scoring assumes for a container that asks for none (thousandths).
pub const DEFAULT_CPU: i64 = 100;
/// The memory that scoring assumes for a container that asks for none (bytes).
pub const DEFAULT_MEMORY: i64 = 209_715_200;

/// Amounts by resource name, in order of name.
///
/// Thousandths for `cpu`, whole units for everything else. A name that is absent counts as zero.
///
/// ```
/// use phalanx::model::Amounts;
///
/// let amounts = Amounts::new().with("cpu", 1_500).with("nvidia.com/gpu", 8);
/// assert_eq!((amounts.of("cpu"), amounts.of("memory")), (1_500, 0));
/// assert_eq!(amounts, [("nvidia.com/gpu", 8), ("cpu", 1_500)].into());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "alloc::collections::BTreeMap<Box<str>, i64>", into = "AmountsMap")
)]
pub struct Amounts(Vec<(Box<str>, i64)>);

#[cfg(feature = "serde")]
type AmountsMap = alloc::collections::BTreeMap<Box<str>, i64>;

#[cfg(feature = "serde")]
impl From<AmountsMap> for Amounts {
    fn from(map: AmountsMap) -> Amounts {
        Amounts(map.into_iter().collect())
    }
}

#[cfg(feature = "serde")]
impl From<Amounts> for AmountsMap {
    fn from(amounts: Amounts) -> AmountsMap {
        amounts.0.into_iter().collect()
    }
}

impl Amounts {
    /// No amounts.
    pub const fn new() -> Amounts {
        Amounts(Vec::new())
    }

    /// These amounts, with that of a resource set: a builder.
    #[must_use]
    pub fn with(mut self, name: &str, amount: i64) -> Amounts {
        self.set(name, amount);
        self
    }

    /// The amount of a resource; zero where it is absent. O(log n).
    pub fn of(&self, name: &str) -> i64 {
        self.find(name).map_or(0, |at| self.0[at].1)
    }

    /// Whether a resource is listed, be it with zero.
    pub fn lists(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, name: &str, amount: i64) {
        match self.0.binary_search_by(|(have, _)| (**have).cmp(name)) {
            Ok(at) => self.0[at].1 = amount,
            Err(at) => self.0.insert(at, (Box::from(name), amount)),
        }
    }

    /// Name and amount of each resource, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.binary_search_by(|(have, _)| (**have).cmp(name)).ok()
    }
}

/// Amounts by name; of a name that comes twice, the last.
impl<S: AsRef<str>> FromIterator<(S, i64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (S, i64)>>(amounts: I) -> Amounts {
        amounts
            .into_iter()
            .fold(Amounts::new(), |all, (name, amount)| all.with(name.as_ref(), amount))
    }
}

impl<S: AsRef<str>, const N: usize> From<[(S, i64); N]> for Amounts {
    fn from(amounts: [(S, i64); N]) -> Amounts {
        amounts.into_iter().collect()
    }
}

/// The types that become a quantity; no other crate adds one.
mod sealed {
    use alloc::string::String;

    use super::Quantity;

    pub trait Sealed {}
    impl Sealed for Quantity {}
    impl Sealed for i64 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for &str {}
    impl Sealed for &String {}
    impl Sealed for String {}
}

/// A quantity, or a value that becomes one: a [`Quantity`], an integer, or Kubernetes'
/// quantity text. The trait is sealed: these are all.
pub trait IntoQuantity: sealed::Sealed {
    /// The quantity, or why the text is none.
    ///
    /// # Errors
    /// The text does not follow the grammar, or the value is out of range.
    fn into_quantity(self) -> Result<Quantity, QuantityError>;
}

impl IntoQuantity for Quantity {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        Ok(self)
    }
}

impl IntoQuantity for i64 {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        Ok(Quantity::from(self))
    }
}

impl IntoQuantity for i32 {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        Ok(Quantity::from(self))
    }
}

impl IntoQuantity for u32 {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        Ok(Quantity::from(self))
    }
}

impl IntoQuantity for &str {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        self.parse()
    }
}

impl IntoQuantity for &String {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        self.parse()
    }
}

impl IntoQuantity for String {
    fn into_quantity(self) -> Result<Quantity, QuantityError> {
        self.parse()
    }
}

/// The amount of a resource that a quantity stands for: thousandths of `cpu`, whole units of
/// anything else, rounded up.
///
/// # Errors
/// The quantity is negative, or does not fit 64 bits in those units.
pub(crate) fn amount_of(resource: &str, quantity: Quantity) -> Result<i64, Problem> {
    if quantity.is_negative() {
        return Err(Problem::Negative);
    }
    if resource == CPU {
        quantity.milli_ceil().ok_or(Problem::Overflow)
    } else {
        Ok(quantity.ceil())
    }
}
