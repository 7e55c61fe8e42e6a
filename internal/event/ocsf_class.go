package event

import (
	"slices"
	"strconv"
	"strings"
)

// class is an OCSF class. The thousands of its uid are its category.
type class struct {
	uid  int64
	name string
}

var (
	fileActivity    = class{1001, "File System Activity"}
	processActivity = class{1007, "Process Activity"}
	networkActivity = class{4001, "Network Activity"}
	apiActivity     = class{6003, "API Activity"}
)

var categories = map[int64]string{1: "System Activity", 4: "Network Activity", 6: "Application Activity"}

// activity is an activity of a class.
type activity struct {
	class
	id   int64
	name string
}

// activityOf returns the class and the activity of an event.
func activityOf(e *Event) activity {
	switch {
	case e.Kind == ToolDeny, e.Kind == ToolCall:
		return activity{apiActivity, 99, "Invoke"}
	case e.Kind == Approval, e.Kind == Grant:
		return activity{apiActivity, 99, "Approve"}
	case e.Kind == HookFailed:
		return activity{apiActivity, 99, "Hook"}
	case e.Kind == SessionEnd:
		return activity{processActivity, 2, "Terminate"}
	case e.Kind == SessionStart, e.Kind == Exec, e.Kind == SessionRefused, e.Kind == Denial && isLaunch(e):
		return activity{processActivity, 1, "Launch"}
	case e.Kind == Denial && e.Resource == "fs":
		return fileActivityOf(e.Capability)
	case e.Kind == Denial && e.Resource == "net" && e.Capability == "listen":
		return activity{networkActivity, 7, "Listen"}
	case e.Kind == Denial && e.Resource == "net":
		return activity{networkActivity, 1, "Open"}
	case e.Kind == Denial && e.Resource == "env":
		return activity{apiActivity, 2, "Read"}
	case e.Kind == Denial && e.Resource == "limits":
		return activity{apiActivity, 99, "Limit"}
	case e.Kind == Denial:
		return activity{apiActivity, 99, "System Call"}
	}
	return activity{apiActivity, 99, "Other"} // gaps
}

// isLaunch reports whether an event is about the start of a program.
func isLaunch(e *Event) bool {
	return e.Resource == "commands" || e.Resource == "fs" && slices.Contains(strings.Split(e.Capability, "+"), "execute")
}

// fileActivityOf returns the activity of one capability or several, "read+update". The one that changes most decides.
func fileActivityOf(capability string) activity {
	has := map[string]bool{}
	for c := range strings.SplitSeq(capability, "+") {
		has[c] = true
	}
	switch {
	case has["create"] && has["delete"], strings.HasPrefix(capability, "rename"):
		return activity{fileActivity, 5, "Rename"}
	case has["delete"]:
		return activity{fileActivity, 4, "Delete"}
	case has["create"]:
		return activity{fileActivity, 1, "Create"}
	case has["update"]:
		return activity{fileActivity, 3, "Update"}
	case has["read"]:
		return activity{fileActivity, 2, "Read"}
	}
	return activity{fileActivity, 99, "Other"}
}

// verdict is the outcome of an event in OCSF's numbers.
type verdict struct {
	action, disposition, status, severity int64
}

func verdictOf(e *Event) verdict {
	switch {
	case e.Kind.IsAboutCall():
		return callVerdict(e)
	case e.Kind == Gap:
		return verdict{action: 3, disposition: 17, status: 2, severity: 4}
	case e.Kind == SessionRefused:
		return verdict{action: 2, disposition: 2, status: 2, severity: 3}
	case e.Kind == SessionEnd:
		return verdict{action: 1, disposition: 1, status: e.endStatus(), severity: 1}
	case e.Kind != Denial:
		return verdict{action: 1, disposition: 1, status: 1, severity: 1}
	case e.Mode == "audit": // would have been denied
		return verdict{action: 3, disposition: 17, status: 1, severity: 2}
	case e.Reason == "engine_error":
		return verdict{action: 2, disposition: 27, status: 2, severity: 4}
	case e.Reason == "approval_denied":
		return verdict{action: 2, disposition: 26, status: 2, severity: 2}
	case e.Reason == "protected":
		return verdict{action: 2, disposition: 2, status: 2, severity: 4}
	}
	return verdict{action: 2, disposition: 2, status: 2, severity: 3}
}

// endStatus returns the status of a session's end. Success is that the command exited by itself with 0.
func (e *Event) endStatus() int64 {
	switch x := e.Exit; {
	case e.cause() != "":
		return 2
	case x == nil || x.Code < 0:
		return 0
	}
	return 1
}

// cause returns the reason. For a session's end without one, it returns how the command failed, or "".
func (e *Event) cause() string {
	x := e.Exit
	switch {
	case e.Kind == ToolCall && e.Extra["end"] != OK:
		return e.Extra["end"]
	case e.Kind != SessionEnd || e.Reason != "" || x == nil:
		return e.Reason
	case x.Signal > 0:
		return "signal " + strconv.Itoa(x.Signal)
	case x.Code > 0:
		return "exit status " + strconv.Itoa(x.Code)
	}
	return ""
}

var (
	actionNames      = map[int64]string{1: "Allowed", 2: "Denied", 3: "Observed", 4: "Modified"}
	dispositionNames = map[int64]string{
		1: "Allowed", 2: "Blocked", 8: "Approved", 11: "Corrected", 14: "Delayed", 16: "No Action", 17: "Logged", 25: "Rejected",
		26: "Unauthorized", 27: "Error",
	}
	statusNames   = map[int64]string{0: "Unknown", 1: "Success", 2: "Failure"}
	severityNames = map[int64]string{1: "Informational", 2: "Low", 3: "Medium", 4: "High"}
)
