package output

import (
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/message"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

func toolRuleJSON(r toolset.Rule) *message.Rule {
	if r.ID == "" {
		return nil
	}
	return &message.Rule{ID: r.ID, Authority: r.Authority().String(), File: r.At.File, Line: r.At.Line}
}

type removedTool struct {
	Name   string        `json:"name"`
	Stage  string        `json:"stage"`
	Reason string        `json:"reason"`
	Rule   *message.Rule `json:"rule"`
}

// ToolList is the JSON of tools list.
type ToolList struct {
	Tools    []string      `json:"tools"`
	Removed  []removedTool `json:"removed"`
	Warnings []string      `json:"warnings"`
	Policy   struct {
		Name   string `json:"name"`
		Digest string `json:"digest"`
	} `json:"policy"`
}

// ToolListJSON is what tools list --json prints.
func ToolListJSON(r *visibility.Result, c *policy.Compiled) ToolList {
	out := ToolList{Tools: []string{}, Removed: []removedTool{}, Warnings: append([]string{}, r.Warnings...)}
	for _, t := range r.Tools {
		if t.Removed == nil {
			out.Tools = append(out.Tools, t.Name)
		} else {
			out.Removed = append(out.Removed, removedTool{t.Name, t.Removed.Stage, t.Removed.Reason, toolRuleJSON(t.Removed.Rule)})
		}
	}
	out.Policy.Name, out.Policy.Digest = c.Name, c.Digest
	return out
}

type toolStage struct {
	Label   string        `json:"label"`
	Result  string        `json:"result"`
	Pattern string        `json:"pattern,omitempty"`
	Rule    *message.Rule `json:"rule"`
}

// ToolExplanation is the JSON of tools explain.
type ToolExplanation struct {
	Name      string       `json:"name"`
	Normal    string       `json:"normal"`
	Visible   bool         `json:"visible"`
	RemovedBy *removedTool `json:"removed_by"`
	Stages    []toolStage  `json:"stages"`
}

// ToolExplanationJSON is what tools explain --json prints.
func ToolExplanationJSON(e *visibility.Explanation) ToolExplanation {
	out := ToolExplanation{Name: e.Name, Normal: e.Normal, Visible: e.Removed == nil, Stages: []toolStage{}}
	if r := e.Removed; r != nil {
		out.RemovedBy = &removedTool{e.Normal, r.Stage, r.Reason, toolRuleJSON(r.Rule)}
	}
	for _, s := range e.Stages {
		out.Stages = append(out.Stages, toolStage{s.Label, s.Result, s.Pattern, toolRuleJSON(s.Rule)})
	}
	return out
}

// ToolExplanation is the answer of tools explain.
func (s *Screen) ToolExplanation(e *visibility.Explanation) {
	defer s.flush()
	name := Clean(e.Name)
	if e.Normal != e.Name {
		name += " (" + Clean(e.Normal) + ")"
	}
	if r := e.Removed; r == nil {
		s.line("%s  %s", s.in(green, "visible"), name)
	} else {
		s.line("%s  %s", s.in(red, "not visible"), name)
		s.line("why  %s: %s", Clean(r.Stage), r.Why())
		if r.Rule.ID != "" {
			s.line("     %s, %s", Clean(r.Rule.ID), Clean(r.Rule.At.String()))
		}
	}
	rows := [][]cell{}
	for _, step := range e.Stages {
		from := ""
		if step.Rule.ID != "" {
			from = step.Rule.ID + ", " + step.Rule.At.String()
		}
		rows = append(rows, []cell{c(step.Label), c(step.Result), c(step.Pattern), c(from)})
	}
	s.table("  ", rows)
}
