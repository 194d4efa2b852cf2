//! Koordinator's reservations, followed as bookings of the scheduler, with their status written back.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use phalanx::kubernetes::queues::reservation;
use phalanx::kubernetes::watch::ObjectRef;
use phalanx::kubernetes::{Mode, Value};
use phalanx::queue::BookingChange;
use phalanx::{Scheduler, Time};
use phalanx_kubernetes_client::log;
use phalanx_kubernetes_client::status::{Note, condition};
use serde_json::json;

/// The resource: a path in the API server.
pub const RESOURCE: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations";

/// A reservation as it was last read.
struct Known {
    uid: String,
    /// All but its status and the server's own notes: while it stays the same, so does the booking.
    spec: Option<Value>,
    /// Whether the scheduler took it as a booking.
    taken: bool,
}

/// Reservations by name, and the moment at which the scheduler's time began.
pub struct Reservations {
    known: BTreeMap<String, Known>,
    /// Since 1970.
    zero: Time,
}

impl Default for Reservations {
    fn default() -> Reservations {
        let zero = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Reservations::at(Time::from_nanos(u64::try_from(zero).unwrap_or(u64::MAX)))
    }
}

impl Reservations {
    /// None, for a scheduler whose time began at a time since 1970.
    fn at(zero: Time) -> Reservations {
        Reservations { known: BTreeMap::new(), zero }
    }

    /// Tells the scheduler what is new, changed and gone among all reservations that there are. One that
    /// cannot be kept is logged once, and holds no room.
    pub fn follow(&mut self, scheduler: &mut Scheduler, objects: &[Value], now: Time) {
        let mut gone = std::mem::take(&mut self.known);
        for object in objects {
            let (name, uid) = (text(object, "name"), text(object, "uid"));
            let spec = object.entry("spec").cloned();
            let own = match gone.remove(&name) {
                Some(own) if own.uid == uid && own.spec == spec && !is_over(object) => own,
                before => {
                    let taken = self.tell(scheduler, object, now);
                    if let (Some(before), false) = (before, taken) {
                        end(scheduler, &name, &before, now);
                    }
                    Known { uid, spec, taken }
                }
            };
            self.known.insert(name, own);
        }
        for (name, own) in gone {
            end(scheduler, &name, &own, now);
        }
    }

    /// Passes a reservation on as a booking. Returns whether it is one.
    fn tell(&self, scheduler: &mut Scheduler, object: &Value, now: Time) -> bool {
        let zero = self.zero.since(Time::ZERO);
        let booked = match reservation(object, Mode::AsWritten, now.after(zero)) {
            Ok(Some(mut booking)) => {
                booking.from = Time::ZERO.after(booking.from.since(self.zero));
                if booking.until < Time::MAX {
                    booking.until = Time::ZERO.after(booking.until.since(self.zero));
                }
                scheduler.handle_booking(booking, now).map_err(|error| error.to_string())
            }
            Ok(None) => return false,
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = &booked {
            let name = text(object, "name");
            log!(warn, "a reservation is not kept", reservation = name, reason = reason);
        }
        booked.is_ok()
    }

    /// The status of a reservation after a change of its booking, if it is one that was read.
    pub fn status(&self, name: &str, change: &BookingChange) -> Option<Note> {
        let own = self.known.get(name).filter(|own| own.taken)?;
        let ready = |is: &str, reason: &str, message: &str| condition("Ready", is, reason, message);
        let status = match change {
            BookingChange::Placed { nodes } => json!({
                "phase": "Available", "nodeName": nodes.first()?,
                "conditions": [condition("Scheduled", "True", "Scheduled", ""), ready("True", "Available", "")],
            }),
            BookingChange::Ended { used: true } => {
                json!({"phase": "Succeeded", "conditions": [ready("False", "Succeeded", "")]})
            }
            BookingChange::Ended { used: false } => {
                let message = "its time is over";
                json!({"phase": "Failed", "conditions": [ready("False", "Expired", message)]})
            }
            _ => return None,
        };
        let object = ObjectRef::new(String::new(), name.to_owned(), own.uid.clone());
        Some(Note::Status { path: format!("{RESOURCE}/{name}/status"), object, status })
    }
}

/// Ends the booking of a reservation, if there is one still.
fn end(scheduler: &mut Scheduler, name: &str, own: &Known, now: Time) {
    if own.taken {
        // It may have ended by itself.
        let _ = scheduler.handle_booking_removed(name, now);
    }
}

/// Whether the status of a reservation says that it is over.
fn is_over(object: &Value) -> bool {
    let status = object.entry("status").and_then(|status| status.entry("phase"));
    matches!(status, Some(Value::Text(phase)) if phase == "Succeeded" || phase == "Failed")
}

/// A text of the metadata.
fn text(object: &Value, name: &str) -> String {
    match object.entry("metadata").and_then(|metadata| metadata.entry(name)) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::queue::Settings;
    use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup};

    /// The scheduler's time began at noon.
    const NOON: &str = "2026-11-24T12:00:00Z";

    fn noon() -> Time {
        Time::from_secs(1_795_521_600)
    }

    fn object(name: &str, cpu: &str, status: &serde_json::Value) -> Value {
        let object = json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": NOON},
            "spec": {
                "ttl": "1h",
                "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                "template": {"spec": {"containers": [
                    {"name": "main", "resources": {"requests": {"cpu": cpu}}},
                ]}},
            },
            "status": status,
        });
        serde_json::from_value(object).expect("a manifest is a value")
    }

    fn scheduler() -> Scheduler {
        let mut cluster = Cluster::new();
        for name in ["n1", "n2"] {
            let node = Node::new(name).capacity("cpu", 8).capacity("pods", 10);
            cluster.add_node(node).expect("the names differ");
        }
        Scheduler::new(cluster, Framework::default(), Settings::default())
    }

    /// The changes of bookings that the scheduler decides on, as notes.
    fn said(own: &Reservations, scheduler: &mut Scheduler, now: Time) -> Vec<serde_json::Value> {
        let mut said = Vec::new();
        while let Some(decision) = scheduler.poll_decision(now) {
            if let Decision::Booking { name, change } = decision
                && let Some(Note::Status { status, object, path }) = own.status(&name, &change)
            {
                assert_eq!(object.uid, format!("uid-{name}"));
                assert_eq!(path, format!("{RESOURCE}/{name}/status"));
                said.push(status);
            }
        }
        said
    }

    fn works(name: &str, app: &str) -> PodGroup {
        let pod = Pod::new().request("cpu", 6).label("app", app);
        PodGroup::of(name, 1, pod)
    }

    #[test]
    fn room_is_kept_for_owners_and_the_status_says_where() {
        let (mut own, mut scheduler) = (Reservations::at(noon()), scheduler());
        let none = json!({});
        let at = Time::from_secs;
        own.follow(&mut scheduler, &[object("a", "6", &none), object("b", "6", &none)], at(5));
        let status = said(&own, &mut scheduler, at(5));
        let nodes: Vec<_> = status.iter().filter_map(|own| own["nodeName"].as_str()).collect();
        assert_eq!(nodes, ["n1", "n2"]);
        assert!(status.iter().all(|own| own["phase"] == "Available"));
        // What the server shows of the status changes nothing.
        let available = json!({"phase": "Available", "nodeName": nodes[0]});
        let shown = [object("a", "6", &available), object("b", "6", &none)];
        own.follow(&mut scheduler, &shown, at(6));
        assert!(said(&own, &mut scheduler, at(6)).is_empty());
        // Room is kept from others, and found by its owner, who uses it up.
        scheduler.handle_group(works("other", "c"), at(7)).expect("it is sound");
        scheduler.handle_group(works("owner", "a"), at(8)).expect("it is sound");
        let mut bound = Vec::new();
        let mut phases = Vec::new();
        while let Some(decision) = scheduler.poll_decision(at(8)) {
            match decision {
                Decision::Bind { groups, .. } => bound.extend(groups),
                Decision::Booking { name, change } => phases.extend(own.status(&name, &change)),
                _ => {}
            }
        }
        assert_eq!(bound, ["default/owner"]);
        let [Note::Status { status, .. }] = &phases[..] else { panic!("{phases:?}") };
        assert_eq!(status["phase"], "Succeeded");
        // The server shows its end; the other one is deleted: its room is free.
        own.follow(&mut scheduler, &[object("a", "6", &json!({"phase": "Succeeded"}))], at(9));
        assert!(scheduler.bookings().is_empty());
        let free = scheduler.poll_decision(at(9));
        assert!(matches!(free, Some(Decision::Bind { .. })), "{free:?}");
    }

    #[test]
    fn time_is_the_servers_and_a_change_is_read_anew() {
        let (mut own, mut scheduler) = (Reservations::at(noon()), scheduler());
        let none = json!({});
        own.follow(&mut scheduler, &[object("a", "6", &none)], Time::from_secs(5));
        let until = |scheduler: &Scheduler| scheduler.bookings()[0].booking.until;
        assert_eq!(until(&scheduler), Time::from_secs(3_600));
        own.follow(&mut scheduler, &[object("a", "4", &none)], Time::from_secs(6));
        let room = &scheduler.bookings()[0].booking.room;
        assert_eq!(room.all_pods()[0].shape().requests.of("cpu"), 4_000);
        // One that cannot be kept holds nothing, and the one before of that name neither.
        own.follow(&mut scheduler, &[object("a", "no amount", &none)], Time::from_secs(7));
        assert!(scheduler.bookings().is_empty());
        own.follow(&mut scheduler, &[object("a", "6", &none)], Time::from_secs(8));
        // An hour after noon it is over.
        let _ = said(&own, &mut scheduler, Time::from_secs(8));
        let last = said(&own, &mut scheduler, Time::from_secs(3_600));
        assert_eq!(last.len(), 1, "{last:?}");
        assert_eq!(last[0]["phase"], "Failed");
        assert_eq!(last[0]["conditions"][0]["reason"], "Expired");
    }
}
