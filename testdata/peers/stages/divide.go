package main

import (
	"strings"

	"github.com/google/pprof/profile"
)

// divider counts samples for stages.
type divider struct {
	exact   map[string]string // a function's stage
	ranges  map[string]string // of all functions whose names begin so
	probes  map[string]bool
	samples map[string]int64 // by stage
	all     int64
	probing int64            // of all: those in probes
	others  map[string]int64 // the samples of rest, by their outermost functions
}

func newDivider() *divider {
	d := &divider{
		exact: make(map[string]string), ranges: make(map[string]string), probes: make(map[string]bool),
		samples: make(map[string]int64), others: make(map[string]int64),
	}
	for _, s := range stages {
		d.name(s.functions, s.name)
	}
	d.name(systemCalls, anySystemCalls)
	for _, name := range probes {
		d.probes[name] = true
	}
	return d
}

func (d *divider) name(functions []string, stage string) {
	for _, f := range functions {
		if isRange(f) {
			d.ranges[f] = stage
		} else {
			d.exact[f] = stage
		}
	}
}

// isRange reports whether a name stands for all functions whose names begin so.
func isRange(name string) bool { return strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/") }

// add counts the samples of a profile of the processors' time.
func (d *divider) add(p *profile.Profile) {
	for _, s := range p.Sample {
		n, stack := s.Value[0], functions(s)
		d.all += n
		stage := d.stageOf(stack)
		d.samples[stage] += n
		if d.probesIn(stack) {
			d.probing += n
		}
		if stage == rest && len(stack) > 0 {
			d.others[stack[len(stack)-1]] += n
		}
	}
}

// functions are those of a sample, the innermost first.
func functions(s *profile.Sample) (names []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// stageOf is the stage of the innermost function that has one. System calls are of whoever
// has made them.
func (d *divider) stageOf(stack []string) string {
	calls := false
	for _, name := range stack {
		stage := d.stage(name)
		switch {
		case stage == anySystemCalls:
			calls = true
		case calls && callsOf[stage] != "":
			return callsOf[stage]
		case !calls && stage != "":
			return stage
		}
	}
	return rest
}

// stage is that of a function by itself; "": it has none. A whole name counts before the
// beginning of one, and a long beginning before a short one.
func (d *divider) stage(name string) string {
	if stage := d.exact[name]; stage != "" {
		return stage
	}
	for n := len(name); n > 0; n-- {
		if stage := d.ranges[name[:n]]; stage != "" {
			return stage
		}
	}
	return ""
}

// probesIn reports whether the innermost function of the ledger is a probe.
func (d *divider) probesIn(stack []string) bool {
	for _, name := range stack {
		if strings.HasPrefix(name, "salectl/backends/ledger.") {
			return d.probes[name]
		}
	}
	return false
}

// share is the part of the samples that a stage has.
func (d *divider) share(stage string) float64 {
	return float64(d.samples[stage]) / float64(max(d.all, 1))
}
