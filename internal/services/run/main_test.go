package main

import (
	"context"
	"strings"
	"testing"
)

func TestCommandsOnServersThatDoNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		args       []string
		out, fault string // what they contain; no fault: ""
	}{
		"status":          {[]string{"status"}, "redis-3  127.0.0.1:16381  does not run\nhbase    127.0.0.1:12181  does not run\n", ""},
		"down":            {[]string{"down"}, "all are down", ""},
		"down with purge": {[]string{"down", "--purge"}, "their data is deleted", ""},
		"kill":            {[]string{"kill", "redis-1"}, "", "redis-1 does not run"},
		"no name":         {[]string{"pause"}, "", "usage: pause"},
		"two names":       {[]string{"pause", "redis-1", "redis-2"}, "", "usage: pause"},
		"a stranger":      {[]string{"continue", "redis-4"}, "", "redis-1, redis-2, redis-3, hbase"},
		"a word too many": {[]string{"status", "redis-1"}, "", "usage: status"},
		"a typo":          {[]string{"ups"}, "", `no command "ups"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", c.args[0], "--dir", t.TempDir()}, c.args[1:]...)
			if name == "a typo" {
				args = append([]string{"run"}, c.args...)
			}
			var out strings.Builder
			err := newApp(&out).RunContext(context.Background(), args)
			if !strings.Contains(out.String(), c.out) {
				t.Errorf("it printed:\n%s", &out)
			}
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got error %v, want %q", err, c.fault)
			}
		})
	}
}
