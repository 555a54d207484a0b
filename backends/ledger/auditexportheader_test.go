package ledger_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/ledger/payload"
	"salectl/internal/tamper"
	"salectl/spec"
)

// TestAuditOfAnyHeader alters each value of the header of an export, alone, and in the same way the last
// line of each log. An audit finds it, or reports the value as one that it cannot prove.
func TestAuditOfAnyHeader(t *testing.T) {
	drawWorld := func() *ledger.DrawWorld {
		w := ledger.NewDrawWorld(t, 3, nil, &spec.Beacon{Name: "drand quicknet", Round: "12345", Fallback: spec.FallbackNone})
		for i := range w.Shards {
			w.Enter(i, 2)
		}
		return w
	}
	entered, closed, awarded := drawWorld(), drawWorld(), drawWorld()
	closed.Close()
	awarded.Close()
	awarded.Reveal([]byte{1, 2, 3}, 6, 4)
	awarded.Award(1)
	packets := ledger.PacketsWorld(t, nil)
	packets.Taken(3)
	open := mustExport(t, packets)
	packets.Seal()
	busy, _ := exported(t)
	_, payloads := payloadExport(t, nil, exportPayloads)
	const (
		heads = `^draw\.(winners|lapsed|reach) (\+ 1|swapped)` // that of live draws may be later
		seed  = `^packets\.commitment |^commit letter`         // of packets that are open
	)
	for name, c := range map[string]struct {
		file     []byte
		unproven string // values that the audit reports as not proven
		warning  string // text of that report
	}{
		"busy":            {mustExport(t, busy), `^$`, ""},
		"units":           {[]byte(strings.Join(payloads, "")), `^$`, ""},
		"packets, open":   {open, seed, "the seed is left out"},
		"packets, sealed": {mustExport(t, packets), `^$`, ""},
		"draw, entered":   {mustExport(t, entered.World), heads, "the number of units of the draw"},
		"draw, closed":    {mustExport(t, closed.World), heads, "the number of units of the draw"},
		"draw, awarded":   {mustExport(t, awarded.World), heads, "the number of units of the draw"},
		"draw, sealed":    {drawnExport(t), `^$`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := exportLines(c.file)
			a, warnings, err := export.Audit(bytes.NewReader(c.file), nil)
			if err != nil || !a.OK || (len(warnings) > 1) != (c.warning != "") || !strings.Contains(strings.Join(warnings, "\n"), c.warning) {
				t.Fatalf("%v, %+v, not proven: %q", err, a, warnings)
			}
			unproven := regexp.MustCompile(c.unproven)
			for i, line := range lines {
				if i > 0 && (strings.HasPrefix(line, `{"claim":`) || i+1 < len(lines) && logOf(line) == logOf(lines[i+1])) {
					continue
				}
				for what, altered := range tamper.Line(line) {
					other := slices.Clone(lines)
					other[i] = altered
					a, _, err := export.Audit(strings.NewReader(strings.Join(other, "")), nil)
					if err == nil && a.OK && !unproven.MatchString(what) {
						t.Errorf("line %d, not found: %s", i+1, what)
					}
				}
			}
		})
	}
}

// logOf is the part of a commit's line that names its log.
func logOf(line string) string { return line[:strings.IndexByte(line, ',')] }

func exportPayloads(w *ledger.World, payloads *payload.Reader, to *bytes.Buffer) error {
	return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads}.Write(w.T.Context(), to)
}
