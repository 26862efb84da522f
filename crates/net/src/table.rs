//! What a handler keeps of each connection: a value under each of the ids that the driver gives.
//!
//! A driver's ids have dense slots, so the table is an array with a value in each slot beside the
//! id it belongs to. It is the counterpart of a [`Slab`](crate::Slab), which gives its keys itself.

use crate::port::ConnectionId;

/// Values by connection. Its memory grows to the highest slot seen and is not given back: the
/// driver's bounds on connections bound it.
#[derive(Clone, Debug)]
pub struct ConnectionTable<T> {
    slots: Vec<Option<(ConnectionId, T)>>,
    len: usize,
}

impl<T> Default for ConnectionTable<T> {
    fn default() -> ConnectionTable<T> {
        ConnectionTable::new()
    }
}

impl<T> ConnectionTable<T> {
    /// An empty table, which has allocated nothing.
    pub const fn new() -> ConnectionTable<T> {
        ConnectionTable {
            slots: Vec::new(),
            len: 0,
        }
    }

    /// How many connections have a value.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps a value for a connection, and returns the one that was in its slot, if it was not
    /// removed: of the same connection, or of one that is gone.
    pub fn insert(&mut self, id: ConnectionId, value: T) -> Option<T> {
        let slot = id.slot() as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let old = self.slots[slot].replace((id, value));
        self.len += usize::from(old.is_none());
        old.map(|(_, value)| value)
    }

    /// The value of a connection, if it has one.
    #[inline]
    pub fn get(&self, id: ConnectionId) -> Option<&T> {
        let (owner, value) = self.slots.get(id.slot() as usize)?.as_ref()?;
        (*owner == id).then_some(value)
    }

    /// The value of a connection, to be changed, if it has one.
    #[inline]
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let (owner, value) = self.slots.get_mut(id.slot() as usize)?.as_mut()?;
        (*owner == id).then_some(value)
    }

    /// Takes a connection's value out, if it has one.
    pub fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        let (_, value) = slot.take_if(|(owner, _)| *owner == id)?;
        self.len -= 1;
        Some(value)
    }

    /// How many slots there are, with a value or without.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The connection that has a value in a slot (that of a timer, say), if one has.
    pub fn id_at(&self, slot: u32) -> Option<ConnectionId> {
        let (id, _) = self.slots.get(slot as usize)?.as_ref()?;
        Some(*id)
    }

    /// All connections with their values, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &T)> {
        self.slots.iter().flatten().map(|(id, value)| (*id, value))
    }

    /// All connections with their values, by slot, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnectionId, &mut T)> {
        let slots = self.slots.iter_mut().flatten();
        slots.map(|(id, value)| (*id, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_own_connection_only() {
        let mut table = ConnectionTable::new();
        let [first, second] = [ConnectionId::new(3, 1), ConnectionId::new(3, 2)];
        assert_eq!(table.insert(first, 'a'), None);
        assert_eq!((table.get(first), table.get(second)), (Some(&'a'), None));
        assert_eq!(table.get_mut(second), None);
        assert_eq!(table.remove(second), None);
        assert_eq!(
            (table.id_at(3), table.id_at(2), table.len()),
            (Some(first), None, 1)
        );
        // The driver gave the slot to another before the handler forgot the first.
        assert_eq!(table.insert(second, 'b'), Some('a'));
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert!(table.iter().eq([(second, &'b')]));
        assert_eq!(
            (table.remove(second), table.remove(second)),
            (Some('b'), None)
        );
        assert_eq!(table.slots(), second.slot() + 1);
        assert!(table.is_empty() && table.iter_mut().next().is_none());
    }
}
