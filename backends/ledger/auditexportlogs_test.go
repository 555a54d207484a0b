package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
	"salectl/units"
)

// TestExportOfLaterRun exports a run whose sale had another before: its part of the sale's own
// log begins behind that, and is audited as it is.
func TestExportOfLaterRun(t *testing.T) {
	w := ledger.WorldOf(t, ledger.OpenSettings(3), func(w *ledger.World) {
		before := ledger.PlannedOf(1, pb.Phase_OPEN)
		before.Uid = "fedcba9876543210"
		for _, op := range []*pb.Op{ledger.PlanOp(before), ledger.SealedOp(), ledger.DestroyedOp()} {
			w.AppendSale(op)
		}
	})
	w.Sell(2, 0)
	w.End()
	file := mustExport(t, w)
	header, _, err := readExport(file)
	if err != nil || header.SaleLog.First != 3 || header.SaleLog.Slots != 3 {
		t.Errorf("%+v, %v", header.SaleLog, err)
	}
	if err := exportOf(w).Check(t.Context(), bytes.NewReader(file)); err != nil {
		t.Error(err)
	}
	lines := exportLines(file)
	last := len(lines) - 1
	for i := range 3 {
		wantNoticed(t, w, "is gone", last-i, slices.Delete(slices.Clone(lines), last-i, last-i+1))
	}
	earlier := w.Logs.Logs[w.Sale.Log()].Entries[0]
	header.SaleLog = &ledger.LogPart{Slots: 1, Root: sha256.Sum256(earlier)}
	forged := append(slices.Clone(lines[:last-2]), string(lineOf(export.Commit{Log: "sale", Commit: earlier})))
	forged[0] = string(lineOf(header))
	if problems := mustAuditExport(t, []byte(strings.Join(forged, ""))).Problems; !slices.ContainsFunc(problems, func(s string) bool {
		return strings.Contains(s, `the log "sale" is of run "fedcba9876543210"`)
	}) {
		t.Errorf("with the log of the run before: %q", problems)
	}
}

// TestExportHasWhatShardsTook exports the sale's log to the last generation that a shard has: what
// comes behind it changes no export of the same shards.
func TestExportHasWhatShardsTook(t *testing.T) {
	w := ledger.NewWorld(t)
	w.Sell(1, 1)
	before := mustExport(t, w)
	for _, op := range []*pb.Op{ledger.AppliedOp(1), ledger.PlanOf(2, pb.Phase_PAUSED)} {
		p := op.GetPlanned()
		if p != nil {
			p.Shards = []*pb.ShardChange{{}, {}, {}}
		}
		w.AppendSale(op)
		if !bytes.Equal(mustExport(t, w), before) {
			t.Errorf("after %v it is another export", op)
		}
	}
	d := w.Draft(1)
	if err := d.Generation(w.Sale.ShardGeneration(2, 1)); err != nil {
		t.Fatal(err)
	}
	w.Commit(1, d)
	header, _, err := readExport(mustExport(t, w))
	if err != nil || header.SaleLog.Slots != w.Sale.Next() {
		t.Errorf("once a shard has it: %+v, %v", header.SaleLog, err)
	}
}

// TestAuditOfExportAgainstPlans finds shards that took what nobody has planned, though the shards
// agree with each other and with their claims.
func TestAuditOfExportAgainstPlans(t *testing.T) {
	for name, c := range map[string]struct {
		op   *pb.Generation
		want []string
	}{
		"units": {&pb.Generation{Number: 2, Add: []*pb.Range{{First: 31, Count: 5}}, Settings: ledger.OpenSettings(3)}, []string{
			"shard 0 took a generation 2 that differs from the planned one", "units [31-35] are in the ledger, but were never added to the sale"}},
		"a limit": {&pb.Generation{Number: 2, Settings: ledger.OpenSettings(30)}, []string{"shard 0 took a generation 2 that differs from the planned one"}},
		"a generation more": {&pb.Generation{Number: 3, Settings: ledger.OpenSettings(3)}, []string{
			"shard 0 took a generation 3 that differs from the planned one"}},
	} {
		w := ledger.NewWorld(t)
		w.AppendSale(ledger.PlanOp(&pb.Planned{Generation: 2, Uid: ledger.TestUID, Run: 1, Settings: ledger.OpenSettings(3), Shards: []*pb.ShardChange{{}, {}, {}}}))
		for number := uint64(2); number <= c.op.GetNumber(); number++ {
			op := c.op
			if number < op.GetNumber() {
				op = w.Sale.ShardGeneration(number, 0)
			}
			d := w.Draft(0)
			if err := d.Generation(op); err != nil {
				t.Fatal(err)
			}
			w.Commit(0, d)
		}
		problems := mustAuditExport(t, mustExport(t, w)).Problems
		for _, want := range c.want {
			if !slices.ContainsFunc(problems, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("%s: %q\nwant %s", name, problems, want)
			}
		}
	}
}

// TestSealedBeforeApplied finds a shard that ended before a generation that was applied on
// every shard.
func TestSealedBeforeApplied(t *testing.T) {
	w := ledger.NewWorld(t)
	w.End()
	if got := ledger.MissingData(3, w.Shards)[0]; got != "ended at generation 2, and 3 were applied" {
		t.Errorf("shard 0 %q", got)
	}
}

// TestNoSeedInExportOfOpenPackets searches the seed in all that an export has while packets may
// still be given, and each hash that is published in its place.
func TestNoSeedInExportOfOpenPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	file := mustExport(t, w)
	hashes := 0
	for _, line := range exportLines(file) {
		var c export.Commit
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(c.Commit, ledger.TestSeed) || strings.Contains(line, "BwcHBwcHBwcH") {
			t.Errorf("the seed is in %s", line)
		}
		if c.Log != "" && c.Hash != nil {
			hashes++
		}
	}
	if a := mustAuditExport(t, file); !a.OK || hashes != 1 {
		t.Errorf("%q, with %d hashes", a.Problems, hashes)
	}
	w.Seal()
	if file = mustExport(t, w); bytes.Contains(file, []byte(`"hash":`)) {
		t.Error("the seed is left out of a sale that is over")
	}
}

// payloadExport exports a sale of units that are CODE1 to CODE30, of which two are sold and two are
// held.
func payloadExport(t *testing.T, key *units.Key, export func(*ledger.World, *payload.Reader, *bytes.Buffer) error) (*ledger.World, []string) {
	t.Helper()
	plan := ledger.Hash{1}
	w := ledger.WorldOf(t, ledger.OpenSettings(3), func(w *ledger.World) {
		w.Change = func(p *pb.Planned) { p.Units, p.PlanDigest, p.NextUnit = []byte("digest"), plan[:], 31 }
	})
	payloads := newPayloadWorld(t, key)
	payloads.logs = w.Logs
	for first := int64(1); first <= 30; first += 10 {
		var names []string
		for unit := range int64(10) {
			names = append(names, fmt.Sprint("CODE", first+unit))
		}
		payloads.mustStore(1, first, names...)
	}
	payloads.mustStore(9, 1, "NEVER") // of a plan that lapsed
	payloads.added = w.Sale.Added()
	w.Sell(2, 0)
	var to bytes.Buffer
	if err := export(w, payloads.reader(), &to); err != nil {
		t.Fatal(err)
	}
	return w, exportLines(to.Bytes())
}

// TestAuditOfExportWithPayloads proves the payloads of claims are by the log of units, with the key
// where they are secret.
func TestAuditOfExportWithPayloads(t *testing.T) {
	whole := func(w *ledger.World, payloads *payload.Reader, to *bytes.Buffer) error {
		return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads}.Write(t.Context(), to)
	}
	for name, key := range map[string]*units.Key{"public": nil, "secret": mustKey(t, 1)} {
		_, lines := payloadExport(t, key, whole)
		text := strings.Join(lines, "")
		audit := func(text string) (*audit.Report, []string) {
			a, unproven, err := export.Audit(strings.NewReader(text), key)
			if err != nil {
				t.Fatal(err)
			}
			return a, unproven
		}
		if a, unproven := audit(text); !a.OK || len(unproven) != 1 {
			t.Errorf("%s: %q, unproven %q", name, a.Problems, unproven)
		}
		if strings.Count(text, `{"log":"units"`) != 3 {
			t.Errorf("%s: the log of units is not there as far as a plan has added units", name)
		}
		first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"log":"units"`) })
		for what, c := range map[string]struct{ text, want string }{
			"a claim's":      {strings.Replace(text, `"CODE2"`, `"CODE3"`, 1), `line 2: claim 0-2-0 has payloads`},
			"a claim's none": {strings.Replace(text, `,"payloads":[{"code":"CODE1","small":"code1"},{"code":"CODE2","small":"code2"}]`, ``, 1), `line 2: claim 0-2-0 has no payloads`},
			"a slot gone":    {strings.Join(slices.Delete(slices.Clone(lines), first+1, first+2), ""), `slot 2 of the log "units" follows slot 0 in line`},
			"the last gone":  {strings.Join(lines[:len(lines)-1], ""), `the log "units" does not end here with the root of the header`},
			"a hash":         {strings.Replace(text, strings.TrimSuffix(lines[first], "}\n"), strings.TrimSuffix(lines[first], "}\n")+`,"hash":"`+strings.Repeat("ab", 32)+`"`, 1), `slot 0 of the log "units" is redacted: true`},
			"none":           {strings.Replace(strings.Join(lines[:first], ""), `"unitsLog"`, `"unitsLag"`, 1), `line 1: the header names no log of units`},
		} {
			if c.text == text {
				t.Fatalf("%s, %s: nothing was altered", name, what)
			}
			a, _, err := export.Audit(strings.NewReader(c.text), nil)
			if key != nil && !strings.Contains(c.text, "unitsLag") && !strings.Contains(c.want, `"units"`) {
				a, _, err = export.Audit(strings.NewReader(c.text), key)
			}
			if err != nil || a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), c.want) {
				t.Errorf("%s, %s: %v, %q\nwant %s", name, what, err, a.Problems, c.want)
			}
		}
	}
}

// TestExportWithoutItsUnits exports nothing where a read of the log of units answers from before the
// units were stored: no export of them lacks what they are.
func TestExportWithoutItsUnits(t *testing.T) {
	for slots := range 4 {
		var failed error
		var again bytes.Buffer
		payloadExport(t, nil, func(w *ledger.World, payloads *payload.Reader, to *bytes.Buffer) error {
			log := w.Logs.Logs[spec.UnitsLog(ledger.TestUID)]
			now := *log
			w.Logs.Before = func() {
				if *log = (ledger.StoredLog{}); slots > 0 {
					head := ledger.Head{Slot: uint64(slots - 1), Hash: sha256.Sum256(now.Entries[slots-1])}
					*log = ledger.StoredLog{head.Encode(), now.Entries[:slots]}
				}
			}
			failed = export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads}.Write(t.Context(), io.Discard)
			w.Logs.Before = nil
			*log = now
			return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads}.Write(t.Context(), io.MultiWriter(to, &again))
		})
		if (slots < 3) != errors.Is(failed, ledger.ErrGone) {
			t.Errorf("of %d slots: %v", slots, failed)
		}
		if a := mustAuditExport(t, again.Bytes()); !a.OK {
			t.Errorf("of %d slots, read again: %q", slots, a.Problems)
		}
	}
}

// TestAuditOfExportOfSecretsWithoutKey reports what it cannot prove, and refuses keys that open
// nothing.
func TestAuditOfExportOfSecretsWithoutKey(t *testing.T) {
	key := mustKey(t, 1)
	for name, c := range map[string]struct {
		sealed, with *units.Key
		redact       bool
		unproven     string
		err          string
	}{
		"no key":      {sealed: key, unproven: "the payloads of the units: they are encrypted"},
		"another key": {sealed: key, with: mustKey(t, 2), err: "the units in the file are encrypted with key " + key.ID()},
		"public":      {with: key, err: "the file has no encrypted units"},
		"redacted":    {sealed: key, redact: true, unproven: "the payloads of the units: they are secret, and were left out"},
	} {
		_, lines := payloadExport(t, c.sealed, func(w *ledger.World, payloads *payload.Reader, to *bytes.Buffer) error {
			if c.redact {
				return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads, Redacted: true}.Write(t.Context(), to)
			}
			return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads}.Write(t.Context(), to)
		})
		a, unproven, err := export.Audit(strings.NewReader(strings.Join(lines, "")), c.with)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", name, err, c.err)
			}
		case err != nil || !a.OK || !strings.Contains(strings.Join(unproven, "\n"), c.unproven):
			t.Errorf("%s: %v, %+v, %q", name, err, a, unproven)
		}
		if text := strings.Join(lines, ""); c.redact && (strings.Contains(text, `"log":"units"`) || strings.Contains(text, "CODE")) {
			t.Errorf("%s: it has what is secret", name)
		}
	}
}

// TestAuditOfExportWithoutSaleLog refuses a header that names no log of the sale.
func TestAuditOfExportWithoutSaleLog(t *testing.T) {
	file := strings.Replace(string(mustExport(t, ledger.NewWorld(t))), `"saleLog"`, `"log"`, 1)
	if _, _, err := export.Audit(strings.NewReader(file), nil); err == nil || err.Error() != "the export's header has no saleLog: export the sale again" {
		t.Errorf("%v", err)
	}
}

// TestAuditOfExportComparesSettings compares the settings of the shards with each other where the
// log of the sale is damaged.
func TestAuditOfExportComparesSettings(t *testing.T) {
	w := ledger.NewWorld(t)
	for i, limit := range []int64{3, 5, 3} {
		d := w.Draft(i)
		if err := d.Generation(&pb.Generation{Number: 2, Settings: ledger.OpenSettings(limit)}); err != nil {
			t.Fatal(err)
		}
		w.Commit(i, d)
	}
	wantFound(t, []alteration{{string(mustExport(t, w)), `{"log":"sale","slot":0,"commit":"`, `{"log":"sale","slot":0,"commit":"AAAA`, "shards 1 and 0 took other settings in generation 2"}})
}
