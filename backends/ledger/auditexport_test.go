package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// mustAuditExport audits an export that can be read.
func mustAuditExport(t testing.TB, file []byte) *audit.Report {
	t.Helper()
	a, _, err := export.Audit(bytes.NewReader(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAuditOfExport checks that the audits of an export and of its ledger agree.
func TestAuditOfExport(t *testing.T) {
	for name, w := range map[string]*ledger.World{
		"busy": func() *ledger.World { w, _ := exported(t); return w }(),
		"red packet, open": func() *ledger.World {
			w := ledger.PacketsWorld(t, nil)
			w.Taken(3)
			return w
		}(),
		"red packet, sealed": func() *ledger.World {
			w := ledger.PacketsWorld(t, nil)
			w.Taken(3)
			w.Seal()
			return w
		}(),
		"on the way": func() *ledger.World {
			w := ledger.NewWorld(t)
			w.Sell(2, 0, 1)
			w.Move(0, 1, 2, 2)
			w.Move(2, 0, 3, 1)
			return w
		}(),
	} {
		live := mustAudit(t, w.Logs)
		a := mustAuditExport(t, mustExport(t, w))
		if !a.OK {
			t.Errorf("%s: %q", name, a.Problems)
		}
		if name == "red packet, open" {
			live.Packets = nil // packets not granted yet are unknown without the seed
		}
		is, _ := json.Marshal(a)
		want, _ := json.Marshal(live)
		if !bytes.Equal(is, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, is, want)
		}
	}
}

// TestAuditOfTamperedExport names what was done to an export, and where.
func TestAuditOfTamperedExport(t *testing.T) {
	w := ledger.NewWorld(t)
	d := w.Draft(0)
	d.Claim("user1", "key1", 2)
	d.Claim("user2", "key2", 1)
	w.Commit(0, d)
	w.End()
	lines := exportLines(mustExport(t, w))
	if len(lines) < 9 || !strings.HasPrefix(lines[2], `{"claim":"0-2-1"`) || !strings.HasPrefix(lines[6], `{"shard":0,"slot":3`) {
		t.Fatalf("other lines than the cases below are for: %q", lines)
	}
	last := len(lines) - 1
	sale := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"log":"sale"`) })
	ends := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"shard":1`) })
	replace := func(i int, from, to string) []string {
		if !strings.Contains(lines[i], from) {
			t.Fatalf("line %d has no %s", i+1, from)
		}
		altered := slices.Clone(lines)
		altered[i] = strings.Replace(lines[i], from, to, 1)
		return altered
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"a claim removed":     {slices.Delete(slices.Clone(lines), 1, 2), `line 2: before it the lines of 1 claim are missing, the first of them claim 0-2-0 of user "user1"`},
		"the last claim":      {slices.Delete(slices.Clone(lines), 2, 3), `line 3: before it the lines of 1 claim are missing, the first of them claim 0-2-1 of user "user2"`},
		"a claim doubled":     {slices.Insert(slices.Clone(lines), 2, lines[1]), `line 3: claim 0-2-0 is repeated or out of order`},
		"a claim made up":     {replace(1, `"0-2-0"`, `"0-9-9"`), `line 2: claim 0-9-9 of user "user1" is in no commit`},
		"another unit":        {replace(2, `"units":[3]`, `"units":[4]`), `line 3: claim 0-2-1 has units [4], its commits have [3]`},
		"another user":        {replace(1, `"user1"`, `"eve"`), `line 2: claim 0-2-0 has user "eve", its commits have "user1"`},
		"a field left out":    {replace(1, `,"key":"key1"`, ``), `line 2: claim 0-2-0 has no key, its commits have "key1"`},
		"another form":        {replace(1, `{"claim":`, `{"claim": `), `line 2: claim 0-2-0 does not have the form that salectl writes`},
		"other counts":        {replace(0, `"sold":3`, `"sold":4`), `line 1: the header has counts.sold 4, the commits have 3`},
		"a commit removed":    {slices.Delete(slices.Clone(lines), 6, 7), `line 7: slot 4 of shard 0 follows slot 2 in line 6: the slots between are missing`},
		"a commit doubled":    {slices.Insert(slices.Clone(lines), 6, lines[6]), `line 8: slot 3 of shard 0 is repeated or out of order`},
		"a commit altered":    {replace(5, `"commit":"Cg`, `"commit":"Ch`), `line 6: slot 2 of shard 0 does not continue the previous slot`},
		"a commit redacted":   {replace(6, `"}`, `","hash":"`+w.Shards[0].Root().String()+`"}`), `line 7: slot 3 of shard 0 is redacted: true; by the header: false`},
		"of no shard":         {replace(6, `"shard":0`, `"shard":7`), `line 7: it is of shard 7, and the header names the roots of 3 shards`},
		"the end cut off":     {lines[:last], `the log "sale" does not end here with the root of the header (line 1): later slots are missing`},
		"a shard's end":       {slices.Delete(slices.Clone(lines), sale-1, sale), ` does not end here with the root of the header (line 1)`},
		"nothing of a log":    {lines[:sale], `the log "sale" has no slot 0, but a root in the header (line 1): its lines are missing, or the file was cut off`},
		"nothing of a shard":  {slices.Concat(lines[:3], lines[ends:]), `shard 0 has no slot 0, but a root in the header (line 1): its lines are missing, or the file was cut off`},
		"a shard's begin":     {slices.Delete(slices.Clone(lines), 3, 4), `line 4: slot 1 of shard 0 is in the place of slot 0: earlier slots are missing`},
		"a begin altered":     {replace(3, `"commit":"Cg`, `"commit":"Ch`), `line 4: slot 0 of shard 0 does not continue the previous slot`},
		"a plan removed":      {slices.Delete(slices.Clone(lines), sale, sale+1), `: slot 1 of the log "sale" is in the place of slot 0`},
		"a plan doubled":      {slices.Insert(slices.Clone(lines), sale, lines[sale]), `slot 0 of the log "sale" is repeated or out of order`},
		"a plan altered":      {replace(sale, `"commit":"Cg`, `"commit":"Ch`), `slot 0 of the log "sale" does not continue the previous slot`},
		"a plan redacted":     {replace(sale, `"}`, `","hash":"`+w.Sale.Part(1).Root.String()+`"}`), `as one from which a seed was left out, and is none`},
		"a plan before":       {slices.Insert(slices.Delete(slices.Clone(lines), sale, sale+1), sale-1, lines[sale]), `of shard 2 follows slots of a later log`},
		"of another log":      {replace(sale, `"log":"sale"`, `"log":"sales"`), `it is of the log "sales", and the header names no such log`},
		"another form of it":  {replace(sale, `"log":`, `"log": `), `slot 0 of the log "sale" does not have the form that salectl writes`},
		"no log of the sale":  {replace(0, `"saleLog"`, `"saleLag"`), ``},
		"cut within the line": {append(slices.Clone(lines[:last]), lines[last][:9]), `the file ends in the middle of this line: its end was cut off`},
		"another root":        {replace(0, `"roots":["`+w.Shards[0].Root().String()[:2], `"roots":["zz`), ``},
	} {
		a, _, err := export.Audit(strings.NewReader(strings.Join(c.lines, "")), nil)
		switch {
		case c.want == "":
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), c.want):
			t.Errorf("%s: %q\nwant %s", name, a.Problems, c.want)
		case slices.ContainsFunc(a.Problems, func(s string) bool { return strings.Contains(s, "line 0") }):
			t.Errorf("%s: %q name a line that there is not", name, a.Problems)
		}
	}
}

// alteration is an altered export, and a part of the problem that the audit must report.
type alteration struct{ file, from, to, want string }

// wantFound audits exports with an alteration each.
func wantFound(t *testing.T, all []alteration) {
	t.Helper()
	for _, c := range all {
		altered := strings.Replace(c.file, c.from, c.to, 1)
		if altered == c.file {
			t.Fatalf("the export does not contain %s", c.from)
		}
		if a := mustAuditExport(t, []byte(altered)); a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), c.want) {
			t.Errorf("%s: %q\nwant %s", c.to, a.Problems, c.want)
		}
	}
}

// TestAuditOfExportOfPackets finds amounts that do not follow from the seed, a seed that was
// not committed to, and where there is none yet, a sum that the amounts do not come to.
func TestAuditOfExportOfPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(3)
	open := string(mustExport(t, w))
	w.Seal()
	sealed := string(mustExport(t, w))
	wantFound(t, []alteration{
		{sealed, `"amounts":["`, `"amounts":["9`, `line 2: claim `},
		{sealed, `"seed":"BwcHBwcH`, `"seed":"BwcHBwcI`, `line 1: the header has packets.seed`},
		{sealed, `"min":"0.05"`, `"min":"0.04"`, `line 1: the header has packets.min`},
		{sealed, `,"seed":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="`, ``, `line 1: the header has no packets.seed`},
		{open, `"amounts":["`, `"amounts":["9`, `line 1: by the claims, packets of`},
		{open, `"amounts":["`, `"amounts":["0.04","`, `has an amount of "0.04", the least is 0.05`},
		{open, `"amounts":["`, `"amounts":["0.07","`, `line 2: claim 0-2-0 has 2 amounts for 1 unit`},
		{open, `"packets":30`, `"packets":29`, `line 1: the header has packets.packets 29`},
	})
}

// TestAuditOfExportWithoutItsPackets finds that the header lacks the red packet that the
// sale's log declares, if the log was rewritten without the seed.
func TestAuditOfExportWithoutItsPackets(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Taken(1)
	lines := exportLines(mustExport(t, w))
	var header export.Header
	var first export.Commit
	last := len(lines) - 1
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &header), json.Unmarshal([]byte(lines[last]), &first)); err != nil {
		t.Fatal(err)
	}
	first.Hash, header.Packets, header.SaleLog.Root = nil, nil, sha256.Sum256(first.Commit)
	lines[0], lines[last] = string(lineOf(header)), string(lineOf(first))
	problems := mustAuditExport(t, []byte(strings.Join(lines, ""))).Problems
	if !slices.ContainsFunc(problems, func(s string) bool { return strings.HasPrefix(s, `line 1: the header has no packets.currency`) }) {
		t.Errorf("%q", problems)
	}
}

// TestAuditOfExportOfOtherPacketsLater finds that a later generation declares another red packet,
// also while packets may be given.
func TestAuditOfExportOfOtherPacketsLater(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	w.Replan(func(_ *pb.Planned, declared *spec.Sale) { declared.RedPacket.Total++ })
	for i := range w.Shards {
		d := w.Draft(i)
		if err := d.Generation(w.Sale.ShardGeneration(2, i)); err != nil {
			t.Fatal(err)
		}
		w.Commit(i, d)
	}
	problems := mustAuditExport(t, mustExport(t, w)).Problems
	if !slices.Equal(problems, []string{"generation 2 declares another red packet than was dealt"}) {
		t.Errorf("%q", problems)
	}
}

// TestAuditOfExportsThatDisagree audits exports whose shards are each whole by themselves, as
// somebody may make them who writes roots anew.
func TestAuditOfExportsThatDisagree(t *testing.T) {
	w := ledger.NewWorld(t)
	w.Move(0, 1, 2, 2)
	lines := exportLines(mustExport(t, w))
	last := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"shard":1`) }) - 1
	var before export.Commit
	if err := json.Unmarshal([]byte(lines[last-1]), &before); err != nil {
		t.Fatal(err)
	}
	lines[0] = strings.Replace(lines[0], w.Shards[0].Root().String(), ledger.Hash(sha256.Sum256(before.Commit)).String(), 1)
	unsent := slices.Delete(slices.Clone(lines), last, last+1)

	w = ledger.NewWorld(t)
	take := func(i int, number uint64, settings *pb.Settings) {
		d := w.Draft(i)
		if err := d.Generation(&pb.Generation{Number: number, Settings: settings}); err != nil {
			t.Fatal(err)
		}
		w.Commit(i, d)
	}
	for i, limit := range []int64{3, 5} {
		take(i, 2, ledger.OpenSettings(limit))
		take(i, 3, ledger.OpenSettings(limit))
	}
	take(2, 2, ledger.PhaseSettings(pb.Phase_CLOSED))
	d := w.Draft(2)
	d.Seal()
	w.Commit(2, d)
	for name, c := range map[string]struct {
		file string
		want string
	}{
		"received and never sent": {strings.Join(unsent, ""), "shard 1 received transfer 1 from shard 0, which never sent it"},
		"never planned":           {string(mustExport(t, w)), "shard 1 took a generation 2 that differs from the planned one"},
		"sealed before":           {string(mustExport(t, w)), "shard 2 ended at generation 2, shard 0 has 3"},
	} {
		if a := mustAuditExport(t, []byte(c.file)); a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), c.want) {
			t.Errorf("%s: %q\nwant %s", name, a.Problems, c.want)
		}
	}
}

// TestAuditOfShortenedExport audits exports that have less of a shard than there is, and are whole in
// all else. An apply or a destroy that is under way shortens none.
func TestAuditOfShortenedExport(t *testing.T) {
	sealed := ledger.NewWorld(t)
	sealed.Sell(1, 0, 1, 2)
	sealed.End()
	open := ledger.NewWorld(t)
	open.Sell(1, 0, 1, 2)
	begun := ledger.NewWorld(t)
	begun.Plan(0, 0, ledger.PhaseSettings(pb.Phase_PAUSED))
	begun.Plan(0, 0, ledger.PhaseSettings(pb.Phase_OPEN))
	for name, c := range map[string]struct {
		w     *ledger.World
		slots map[int]uint64 // that a shard has; of the others all
		want  []string
	}{
		"whole":               {sealed, nil, nil},
		"live":                {open, nil, nil},
		"no log":              {open, map[int]uint64{0: 0}, []string{"shard 0 has no log"}},
		"no log, sealed":      {sealed, map[int]uint64{1: 0}, []string{"shard 1 has no log"}},
		"no logs but one":     {open, map[int]uint64{0: 0, 2: 0}, []string{"shard 0 has no log", "shard 2 has no log"}},
		"before it had owner": {open, map[int]uint64{0: 1}, nil},
		"before its close":    {sealed, map[int]uint64{0: 3}, []string{"shard 0 ended at generation 1, shard 1 has 2"}},
		"before its seal":     {sealed, map[int]uint64{2: sealed.Shards[2].Next() - 1}, []string{"shard 2 is not sealed, and shard 1 is"}},
		"no seals":            {sealed, map[int]uint64{0: 4, 1: 4, 2: 4}, nil},
		"amid an apply":       {sealed, map[int]uint64{0: 3, 1: 3, 2: 4}, nil},
		"amid a later apply":  {begun, map[int]uint64{0: 2, 1: 3, 2: 3}, nil},
		"before what it had":  {begun, map[int]uint64{0: 2, 1: 2}, []string{"shard 0 ended at generation 1, and 2 were applied", "shard 1 ended at generation 1, and 2 were applied"}},
		"amid the first":      {open, map[int]uint64{0: 0, 1: 1, 2: 1}, nil},
	} {
		shards := slices.Clone(c.w.Shards)
		for i, slots := range c.slots {
			shards[i] = ledger.NewState(shards[i].Log())
			for _, entry := range c.w.Logs.Logs[shards[i].Log()].Entries[:slots] {
				if err := shards[i].Fold(entry); err != nil {
					t.Fatal(err)
				}
			}
		}
		var file bytes.Buffer
		if err := (export.Sale{Name: "test", Log: c.w.Sale, Shards: shards, Logs: c.w.Logs}).Write(t.Context(), &file); err != nil {
			t.Fatal(err)
		}
		if problems := mustAuditExport(t, file.Bytes()).Problems; !slices.Equal(problems, c.want) && len(problems)+len(c.want) > 0 {
			t.Errorf("%s: %q, want %q", name, problems, c.want)
		}
	}
}

// TestAuditOfUnreadableCommits reports how many claims could not be judged, and not that they are
// in no commit.
func TestAuditOfUnreadableCommits(t *testing.T) {
	w := ledger.NewWorld(t)
	w.Sell(1, 0, 0, 1)
	lines := exportLines(mustExport(t, w))
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"shard":0,"slot":1,`) })
	problems := strings.Join(mustAuditExport(t, []byte(strings.Join(slices.Delete(lines, first, first+1), ""))).Problems, "\n")
	if !strings.Contains(problems, "4 claims could not be verified") || strings.Contains(problems, "in no commit") {
		t.Error(problems)
	}
}

// TestAuditOfExportOfPacketsAmidTheFirstApply finds nothing wrong with an export of packets that was
// written before all shards had taken theirs.
func TestAuditOfExportOfPacketsAmidTheFirstApply(t *testing.T) {
	w := ledger.PacketsWorld(t, nil)
	for i, s := range w.Shards { // the first is created, and none has an owner yet
		w.Shards[i] = ledger.NewState(s.Log())
	}
	if err := w.Shards[0].Fold(w.Logs.Logs[w.Shards[0].Log()].Entries[0]); err != nil {
		t.Fatal(err)
	}
	if problems := mustAuditExport(t, mustExport(t, w)).Problems; len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}

// TestAuditOfExportOfPacketsAmidATransfer finds nothing wrong with an export of packets that was
// written between the steps of a transfer.
func TestAuditOfExportOfPacketsAmidATransfer(t *testing.T) {
	for steps := 1; steps <= 3; steps++ {
		w := ledger.PacketsWorld(t, nil)
		w.Move(0, 1, 2, steps)
		if problems := mustAuditExport(t, mustExport(t, w)).Problems; len(problems) > 0 {
			t.Errorf("after %d steps: %q", steps, problems)
		}
	}
}
