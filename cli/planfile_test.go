package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
)

// forge changes what a file's plan appends, and gives the plan the digest that its file needs.
func forge(t *testing.T, path string, change func(*pb.Planned)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plan, planned := new(planner.Plan), new(pb.Planned)
	if err := json.Unmarshal(text, plan); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(plan.Payload, planned); err != nil {
		t.Fatal(err)
	}
	change(planned)
	if plan.Payload, err = proto.Marshal(planned); err != nil {
		t.Fatal(err)
	}
	plan.Digest, plan.Labels = [32]byte{}, nil
	if text, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	plan.Digest = sha256.Sum256(text)
	if text, err = plan.Encode(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The command that plan suggests carries out what it has saved, wherever the sale's file is.
func TestSuggestedCommands(t *testing.T) {
	file := applySale(t, "tickets")
	folder := filepath.Dir(file)
	t.Chdir(t.TempDir())
	suggested := func(args ...string) {
		t.Helper()
		c := newCapture()
		c.run(append([]string{"salectl"}, args...), nil)
		line := regexp.MustCompile(`(?m)^  salectl (.*)$`).FindStringSubmatch(c.out.String())
		if line == nil {
			t.Fatalf("%v suggests nothing: %s%s", args, &c.out, &c.err)
		}
		then := newCapture()
		if code := then.run(append([]string{"salectl"}, strings.Fields(line[1])...), nil); code != 0 {
			t.Errorf("%v suggests %q: exit code %d\n%s", args, line[1], code, &then.err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("stock: 10"), []byte("stock: 12"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	suggested("plan", "-f", file, "--out", filepath.Join(folder, "more.plan"))
	suggested("plan", "-f", folder, "--destroy", "--out", "end.plan")
}

// A forged plan file that has every shard sell the same units is refused by whoever reads it,
// and changes nothing.
func TestForgedPlanFile(t *testing.T) {
	folder := t.TempDir()
	file, saved := filepath.Join(folder, "sale.yaml"), filepath.Join(folder, "sale.plan")
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec: {stock: 10, lockCount: 2, embedded: {}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		c := newCapture()
		if code := c.run(append([]string{"salectl"}, args...), nil); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", args, code, want, &c.err)
		}
		return c.out.String() + c.err.String()
	}
	run(0, "plan", "-f", file, "--out", saved)
	forge(t, saved, func(p *pb.Planned) {
		for _, shard := range p.GetShards() {
			shard.Add = []*pb.Range{{First: 1, Count: 10}}
		}
	})
	for _, command := range []string{"show", "apply"} {
		const want = "the plan is stale: the file and the ledger of sale tickets now require another one: shards[0] is "
		if says := run(5, command, "-f", file, saved); !strings.Contains(says, want) {
			t.Errorf("%s says %q, want %q in it", command, says, want)
		}
	}
	run(2, "plan", "-f", file, "--exit-code") // the sale does not exist
}
