// Package report has the messages of `toolguardd audit verify` to toolguard. It imports nothing that is expensive to start with.
package report

// Report is the result of verifying a spool.
type Report struct {
	Chain       string    `json:"chain"` // the spool's id
	Files       int       `json:"files"`
	Records     uint64    `json:"records"` // that exist
	First       uint64    `json:"first"`   // number of the first record
	Last        uint64    `json:"last"`
	LastHash    string    `json:"last_hash"`
	Checkpoints int       `json:"checkpoints"`
	Keys        []string  `json:"keys"`                  // that have signed checkpoints, in order
	Removed     uint64    `json:"removed"`               // records before the first one, which the spool itself has removed
	RemovedWhy  string    `json:"removed_why,omitempty"` // why the last of them were removed, in the spool's words
	Unsigned    uint64    `json:"unsigned"`              // records at the end that no signature includes yet
	Unfinished  int64     `json:"unfinished"`            // bytes after the end: an ongoing or interrupted write
	Lost        uint64    `json:"lost"`                  // events that gaps count
	Gaps        int       `json:"gaps"`
	Inexact     int       `json:"inexact"` // gaps without an exact count
	Problems    []Problem `json:"problems"`
	Omitted     int       `json:"omitted"` // further problems
}

// Problem is a deviation from the spool's own content.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"` // 0: the file as a whole
	Text string `json:"text"`
}

// Progress is one line of the output: the progress, or finally the report.
type Progress struct {
	Done   int64   `json:"done,omitempty"`
	Total  int64   `json:"total,omitempty"`
	Report *Report `json:"report,omitempty"`
}
