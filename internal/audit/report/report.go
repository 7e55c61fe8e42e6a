// Package report is what toolguardd's program says to toolguard of a spool that it has verified. It leads to nothing that is dear to start
// with.
package report

// Report is what was found in a spool.
type Report struct {
	Chain       string    `json:"chain"` // the spool's id
	Files       int       `json:"files"`
	Records     uint64    `json:"records"` // that are there
	First       uint64    `json:"first"`   // record, by number
	Last        uint64    `json:"last"`
	LastHash    string    `json:"last_hash"`
	Checkpoints int       `json:"checkpoints"`
	Keys        []string  `json:"keys"`                  // that have signed, the first one first
	Removed     uint64    `json:"removed"`               // records before the first one, which the spool has removed itself
	RemovedWhy  string    `json:"removed_why,omitempty"` // the last of them, as the spool says it
	Unsigned    uint64    `json:"unsigned"`              // records at the end that no signature speaks for yet
	Unfinished  int64     `json:"unfinished"`            // bytes after the end: a write that is under way, or was cut short
	Lost        uint64    `json:"lost"`                  // events that gaps count
	Gaps        int       `json:"gaps"`
	Inexact     int       `json:"inexact"` // gaps that don't know how many
	Problems    []Problem `json:"problems"`
	Untold      int       `json:"untold"` // problems besides
}

// Problem is something that isn't as it was written.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"` // 0: the file as a whole
	Text string `json:"text"`
}

// Progress is a line of what is said: how far it is, or at last the report.
type Progress struct {
	Done   int64   `json:"done,omitempty"`
	Total  int64   `json:"total,omitempty"`
	Report *Report `json:"report,omitempty"`
}
