package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-trace", "succession", "batch"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"without stops-before-giving",
		"the successor reads the log to its end",
		"again and again",
		"4 cases, ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
}

func TestUnknownModel(t *testing.T) {
	err := run(t.Context(), []string{"handovr"}, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "handovr") || !strings.Contains(err.Error(), "handover,") {
		t.Errorf("it says %v, and not which models there are", err)
	}
}
