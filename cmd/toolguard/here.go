package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// backendFlags select the backend that enforces a policy, and the rules that need not be enforced.
type backendFlags struct {
	backend  string
	daemon   string
	degraded []string
}

func (f *backendFlags) define(cmd *cobra.Command) {
	choiceFlag(cmd, &f.backend, "backend", "what enforces the policy; auto selects the best one available", append([]string{"auto"}, backend.Backends...)...)
	choiceFlag(cmd, &f.daemon, "daemon", "whether toolguardd must, may or may not take part", "auto", "require", "none")
	cmd.Flags().StringSliceVar(&f.degraded, "allow-degraded", nil, "start although the rules `ID,…` aren't enforced; exec --dry-run prints the ids")
}

func (f *backendFlags) report(c *policy.Compiled) (backend.Report, error) {
	return backend.ReportFor(c, f.backend, f.daemon, f.degraded)
}

// given reports whether one of the flags is on the command line.
func (f *backendFlags) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"backend", "daemon", "allow-degraded"}, cmd.Flags().Changed)
}

// evaluator answers questions under one policy, for the policy and for this machine.
type evaluator struct {
	policy *policy.Compiled
	report backend.Report
	err    error // why no command starts under any policy here
}

func (f *backendFlags) evaluator(c *policy.Compiled) *evaluator {
	j := &evaluator{policy: c}
	j.report, j.err = f.report(c)
	return j
}

func (j *evaluator) ask(q explain.Question) (explain.Answer, backend.Here) {
	_, a := explain.Ask(j.policy, hostfs.Machine{}, q)
	return a, j.here(q, a, func() []explain.LayerExplanation { return explain.Explain(j.policy, hostfs.Machine{}, q).Layers })
}

func (j *evaluator) explain(q explain.Question) (explain.Explanation, backend.Here) {
	e := explain.Explain(j.policy, hostfs.Machine{}, q)
	return e, j.here(q, e.Answer, func() []explain.LayerExplanation { return e.Layers })
}

// starts returns whether, and by which backend, a command starts under the policy.
func (j *evaluator) starts() *output.Starts {
	return &output.Starts{Backend: j.report.Backend, Starts: j.err == nil && len(j.report.Blocking) == 0, Instead: j.report.Instead}
}

// warnings returns the rules of the policy that aren't enforced.
func (j *evaluator) warnings() []explain.Warning {
	if j.err != nil {
		return []explain.Warning{{Code: "not-enforced", Msg: "nothing starts under this policy here: " + j.err.Error()}}
	}
	return j.report.Warnings()
}

func (j *evaluator) here(q explain.Question, a explain.Answer, layers func() []explain.LayerExplanation) backend.Here {
	if j.err != nil {
		return backend.Here{StartError: j.err.Error()}
	}
	return j.report.Here(q, a, layers)
}
