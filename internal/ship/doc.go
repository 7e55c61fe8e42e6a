// Package ship sends the audit to where events are collected: files, the journal, syslog, OpenTelemetry, Splunk, any webhook, JetStream.
//
// Each sink has a worker with a reader of the audit and a cursor of its own, so that none waits for another. A worker reads a batch, hands
// it to its sender, and moves the cursor when the receiver has acknowledged it. What fails is tried again, the same records in the
// same order, after a wait that doubles up to a minute. So each record arrives once at least, and a record that comes again has the
// uid that it had; the first of each are in the order of the audit.
//
// What a receiver refuses for good is looked for by halving the batch. In its place goes a gap, which names it. A receiver that refuses the
// gap too refuses everything: that is taken for a wrong setting, told, and tried again. Nothing is skipped without a gap: neither what isn't
// in the audit any more nor what can't be read there.
//
// # Trust
//
// The shipper reads the audit by its group and can't write it, nor its key. What it says of its cursors is used by toolguardd to make
// room, when there's none, for what is new: package audit. A hostile one can tell its receivers anything, so it's the audit that is
// verified, with what its checkpoints say as the receivers have them. Receivers are hostile to it: what they answer is bounded in size and time.
package ship
