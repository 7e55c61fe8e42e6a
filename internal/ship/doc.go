// Package ship sends the audit to where events are collected: files, the journal, syslog, OpenTelemetry, Splunk, webhooks,
// JetStream.
//
// Each sink has a worker with its own reader of the audit and its own cursor, so that no sink waits for another. A worker reads a
// batch, passes it to its sender, and advances the cursor when the receiver has acknowledged it. After a failure, it sends the same
// records in the same order again, with a delay that doubles up to a minute. So each record is delivered at least once, a repeated
// record has the same uid, and the first deliveries are in the order of the audit.
//
// To find a record that the receiver rejects permanently, the worker halves the batch. It replaces the record by a gap that names
// it. A receiver that also rejects the gap rejects everything: that is a wrong setting, which is logged and retried. Nothing is
// skipped without a gap, neither records that were removed from the audit nor unreadable ones.
//
// # Trust
//
// The shipper reads the audit with its group. It can't write it or read its key. toolguardd uses the shipper's cursors to free
// space for new records: see package audit. A hostile shipper can send anything to the receivers, so verify the audit itself, with
// the checkpoints that the receivers have. Receivers are hostile to the shipper: their responses are limited in size and time.
package ship
