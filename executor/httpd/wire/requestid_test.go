package wire

import (
	"net/http"
	"strings"
	"testing"
)

func TestTraceID(t *testing.T) {
	const (
		traced  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		itsName = "4bf92f3577b34da6a3ce929d0e0e4736"
	)
	for given, want := range map[string]string{
		traced:                               itsName,
		"cc" + traced[2:] + "-more":          itsName, // of a later version
		"":                                   "",
		traced + "-more":                     "",
		traced[:54]:                          "",
		"ff" + traced[2:]:                    "",
		strings.ToUpper(traced):              "",
		"cc" + traced[2:] + "more":           "",
		strings.ReplaceAll(traced, "-", "0"): "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01": "",
	} {
		if got := traceID(&http.Request{Header: http.Header{"Traceparent": {given}}}); got != want {
			t.Errorf("%q is of trace %q, want %q", given, got, want)
		}
	}
	if got := traceID(&http.Request{Header: http.Header{"Traceparent": {traced, traced}}}); got != "" {
		t.Errorf("two headers are of trace %q", got)
	}
}
