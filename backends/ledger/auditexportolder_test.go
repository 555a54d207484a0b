package ledger

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// olderExport makes of an export one as they were before there were other logs in it than those of
// the shards. But for these it is the same, as that of testdata is, which such a version has written.
func olderExport(t testing.TB, file string) string {
	t.Helper()
	lines := slices.DeleteFunc(exportLines([]byte(file)), func(line string) bool { return isLogCommit([]byte(line)) })
	var h ExportHeader
	if err := json.Unmarshal([]byte(lines[0]), &h); err != nil {
		t.Fatal(err)
	}
	h.SaleLog, h.UnitsLog = nil, nil
	lines[0] = string(exportLine(h))
	return strings.Join(lines, "")
}

const noPlans = "that the shards took the units and the settings that were planned: the file was written before"

// TestAuditOfOlderExport audits what was exported before the plans were, and says what is not
// proven for that.
func TestAuditOfOlderExport(t *testing.T) {
	written, err := os.ReadFile("testdata/export-without-plans.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	a, unproven, err := AuditExport(strings.NewReader(string(written)), nil)
	if err != nil || !a.OK || a.Sold != 3 || a.Confirmed != 3 || len(unproven) != 3 ||
		!strings.HasPrefix(unproven[1], noPlans) || !strings.HasPrefix(unproven[2], "what the units are: the file was written before") {
		t.Errorf("%v, %+v, %q", err, a, unproven)
	}
	if _, _, err := AuditExport(strings.NewReader(string(written)), mustKey(t, 1)); err == nil || !strings.Contains(err.Error(), "audit it without a key") {
		t.Errorf("with a key: %v", err)
	}
}

// TestAuditOfOlderExportOfPackets deals them by what the header says.
func TestAuditOfOlderExportOfPackets(t *testing.T) {
	w := packetsWorld(t, nil)
	w.taken(3)
	open := olderExport(t, string(mustExport(t, w)))
	w.seal()
	whole := string(mustExport(t, w))
	sealed := olderExport(t, whole)
	a, unproven, err := AuditExport(strings.NewReader(sealed), nil)
	if err != nil || !a.OK || len(unproven) != 2 {
		t.Errorf("%v, %+v, %q", err, a, unproven)
	}
	if want := mustAuditExport(t, []byte(whole)).Packets; a.Packets == nil || *a.Packets != *want {
		t.Errorf("the packets come to %+v, want %+v", a.Packets, want)
	}
	wantFound(t, []alteration{
		{sealed, `"amounts":["`, `"amounts":["9`, `line 2: claim `},
		{sealed, `"seed":"BwcHBwcH`, `"seed":"BwcHBwcI`, `line 1: the header has packets.commitment`},
		{sealed, `"seed":"BwcHBwcH`, `"seed":"`, `line 1: the red packet's seed has 26 bytes, not 32`},
		{sealed, `"total":"100.00"`, `"total":"1OO.00"`, `line 1: the red packet has an amount of "1OO.00"`},
		{sealed, `,"seed":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="`, ``, `line 1: the sale is closed, and the seed of its red packet is missing`},
		{sealed, `"packets":30`, `"packets":31`, `line 1: there are to be 31 packets, and the commits have another number of units`},
		{open, `"amounts":["`, `"amounts":["9`, `line 1: the packets that were granted come to`},
		{open, `,"packets":{`, `,"pockets":{`, `line 2: claim 0-2-0 has amounts`},
		{open, `}}` + "\n", `},"unitsLog":{"first":0,"slots":1,"root":"` + testUID + testUID + testUID + testUID + `"}}` + "\n", `line 1: the header has unitsLog.root`},
	})
}

// TestAuditOfOlderExportOfDraw works out the order from what the header reveals.
func TestAuditOfOlderExportOfDraw(t *testing.T) {
	file := olderExport(t, string(drawnExport(t)))
	a, _, err := AuditExport(strings.NewReader(file), nil)
	if err != nil || !a.OK || a.Draw == nil || !a.Draw.Revealed {
		t.Fatalf("%v, %+v", err, a)
	}
	altered := strings.Replace(file, `"rank":1`, `"rank":2`, 1)
	if said := mustAuditExport(t, []byte(altered)).Problems; !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "has rank 2, its commits say 1") }) {
		t.Errorf("%q", said)
	}
	altered = strings.Replace(file, `"value":"`, `"value":"x`, 1)
	if said := mustAuditExport(t, []byte(altered)).Problems; altered == file || !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "the draw has a beacon's value of") }) {
		t.Errorf("%q", said)
	}
}

// TestAuditOfOlderExportWithOtherSettings holds the shards against each other, since nobody says
// what was planned.
func TestAuditOfOlderExportWithOtherSettings(t *testing.T) {
	w := newWorld(t)
	for i, limit := range []int64{3, 5, 3} {
		d := w.draft(i)
		if err := d.Generation(&pb.Generation{Number: 2, Settings: openSettings(limit)}); err != nil {
			t.Fatal(err)
		}
		w.commit(i, d)
	}
	said := mustAuditExport(t, []byte(olderExport(t, string(mustExport(t, w))))).Problems
	if !slices.Equal(said, []string{"shards 1 and 0 took other settings in generation 2"}) {
		t.Errorf("%q", said)
	}
}
