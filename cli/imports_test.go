package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "salectl"

// layers are the house's floors, from the ground up: a package may import what
// lies below it, and on its own floor only what is listed.
var layers = []struct {
	under  string
	floor  int
	beside []string // packages of the same floor that it may import
}{
	{"draw", 0, nil}, // the arithmetic of a draw; it knows nothing of the program
	{"api", 0, []string{"api/streampb", "draw"}}, // with which other programs ask, too
	{"api/streampb", 0, nil},
	{"spec", 0, []string{"internal/files"}},
	{"internal/files", 0, nil},
	{"internal/rapidseed", 0, nil}, // for tests alone
	{"internal/tamper", 0, nil},    // for tests alone, as is
	{"internal/signals", 0, nil},
	{"internal/text", 0, nil},
	{"internal/wait", 0, nil},
	{"internal/csvfile", 1, nil},
	{"units", 1, []string{"internal/csvfile"}}, // what units are; it knows no store and no sale under way
	{"backends/clock", 1, nil},
	{"rules", 2, nil}, // who may claim; it knows no store and no sale under way
	{"backends/ledger", 2, []string{"backends/ledger/internal/chunked", "backends/ledger/ledgerpb"}},
	{"backends/ledger/internal/chunked", 2, nil},
	{"backends/ledger/audit", 2, []string{"backends/ledger", "backends/ledger/internal/chunked", "backends/ledger/ledgerpb", "backends/ledger/payload"}},
	{"backends/ledger/export", 2, []string{"backends/ledger", "backends/ledger/audit", "backends/ledger/ledgerpb", "backends/ledger/payload"}},
	{"backends/ledger/payload", 2, []string{"backends/ledger", "backends/ledger/ledgerpb"}},
	{"backends/ledger/ledgerpb", 2, nil},
	{"backends/lists", 2, []string{"backends/ledger", "backends/ledger/ledgerpb"}},
	{"backends/quorum", 2, nil},
	{"backends/calls", 3, nil},
	{"backends/embedded", 3, nil},
	{"backends/hbase", 3, nil},
	{"backends/redis", 3, nil},
	{"backends/memory", 3, nil}, // for the simulation and tests alone
	{"backends/backendtest", 3, nil},
	{"backends/feed", 4, nil},
	{"backends", 4, nil},
	{"planner", 5, nil}, // plans; it reads nothing and changes nothing
	{"planner/machine", 5, []string{"planner"}},
	{"planner/current", 5, []string{"planner", "planner/machine"}},
	{"planner/apply", 5, []string{"planner", "planner/current", "planner/machine"}},
	{"planner/plannertest", 4, nil}, // for tests alone
	{"executor/saletest", 3, nil},
	{"executor/status", 2, nil},  // what is wrong with a process; it knows no sale
	{"executor/request", 3, nil}, // requests and their answers; it knows no shard
	{"executor/shard", 4, nil},
	{"executor/listengine", 4, []string{"executor/shard"}}, // requests to the nodes that keep lists
	{"executor/ownership", 4, []string{"executor/shard"}},  // which process has which shard
	{"executor/process", 4, []string{"executor/listengine", "executor/ownership", "executor/peers", "executor/shard"}}, // one process; it knows no goroutine and makes no call
	{"executor/metrics", 4, []string{"executor/process", "executor/shard", "executor/ownership"}},
	{"executor", 5, nil},
	{"executor/reload", 1, nil}, // what a server does about its sale files; it reads none
	{"executor/peers", 4, []string{"executor/shard", "executor/ownership"}}, // links to other processes, and requests forwarded to them
	{"executor/payments", 6, nil},
	{"executor/httpd", 6, []string{"executor/payments", "executor/httpd/access", "executor/httpd/events", "executor/httpd/stream", "executor/httpd/wire"}},
	{"executor/httpd/access", 6, []string{"executor/httpd/wire"}}, // who may reach a server; it knows no path
	{"executor/httpd/events", 6, []string{"executor/httpd/access", "executor/httpd/wire"}},
	{"executor/httpd/stream", 6, []string{"executor/httpd/access", "executor/httpd/wire"}},
	{"executor/httpd/httpdtest", 9, nil}, // for tests alone
	{"executor/httpd/wire", 6, nil},      // the form of requests and responses; it knows no sale
	{"executor/httpd/dashboard", 2, nil}, // it shows what it is told, and knows no executor
	{"executor/rehearse", 6, nil},
	{"report", 6, []string{"executor/rehearse"}},
	{"report/threshold", 1, nil},
	{"server", 7, nil}, // the processes that sell; it parses no flags and prints nothing
	{"cli", 7, []string{"server"}},
	{"cli/planview", 6, nil},  // how plans look; it makes none
	{"cli/terminal", 1, nil},  // what people see; it knows no sale
	{"cli/lock", 6, nil},      // locks and commands under them; it prints nothing
	{"cli/replicas", 10, nil}, // tests alone, of several real processes
	{"", 8, nil},              // main
	{"sim/check", 7, nil},
	{"sim/stepped", 5, nil},
	{"sim", 8, nil}, // whole sales on virtual time; the program knows nothing of it
	{"sim/tool", 0, nil},
	{"sim/models/explore", 0, nil},
	{"sim/models", 1, nil}, // of the protocols; they share no code with the program
	{"sim/models/run", 2, nil},
	{"sim/scale", 9, nil},
	{"sim/soak", 9, nil},
	{"sim/mutants", 9, nil},
	{"sim/mutate/mutation", 0, nil}, // in copies of all others, while they are tried
	{"sim/mutate", 9, nil},
	{"internal/services", 9, nil},          // real servers, for tests and newcomers; the program knows nothing of them
	{"internal/services/browser", 10, nil}, // for tests alone
	{"internal/services/certs", 8, nil},    // for tests alone
	{"internal/services/run", 10, nil},
	{"internal/services/scripts", 10, nil}, // what test scripts share
	{"examples", 10, nil},
	{"examples/monitoring", 10, nil},                 // tests of what to monitor sales with
	{"examples/hold-and-pay/pay", 0, nil},            // a payment service, which knows nothing of the program
	{"examples/members-only-cluster/tables", 0, nil}, // makes HBase tables, and knows nothing of the program
	{"docs", 10, nil},                                // tests of the pages alone
}

// choosers are the packages that planner and executor must not know: which
// driver a sale has is none of their business.
var choosers = []string{"backends", "backends/embedded", "backends/hbase", "backends/redis"}

// vendors are imported by their driver alone.
var vendors = map[string]string{
	"zombiezen.com/go/sqlite":    "backends/embedded",
	"modernc.org":                "backends/embedded",
	"github.com/redis/go-redis":  "backends/redis",
	"github.com/tsuna/gohbase":   "backends/hbase examples/members-only-cluster/tables",
	"github.com/urfave/cli":      "cli internal/services/run",
	"github.com/schollz":         "cli",
	"gopkg.in/yaml.v3":           "spec executor/httpd",
	"github.com/invopop":         "spec",
	"github.com/chromedp":        "internal/services/browser",
	"github.com/prometheus":      "executor executor/metrics executor/payments executor/httpd executor/httpd/dashboard server sim sim/stepped",
	"google.golang.org/protobuf": "api/streampb backends/ledger backends/ledger/audit backends/ledger/export backends/ledger/payload backends/ledger/ledgerpb backends/hbase planner planner/current planner/plannertest executor/saletest sim sim/check",
	"github.com/anishathalye":    "sim/check",
	"cel.dev":                    "rules",
}

// Which kind of store a sale has is the business of spec and of the drivers: who
// needs to know something of it asks spec.Home or backends.Store.
func TestNobodyAsksWhichStoreItIs(t *testing.T) {
	asks := regexp.MustCompile(`\.(Embedded|HBase|Redis)\b`)
	for _, folder := range []string{"../planner", "../planner/apply", "../planner/current", "../planner/machine", "../cli"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if at := asks.FindIndex(text); at != nil && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s:%d asks which kind of store a sale has: %s", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
			}
		}
	}
}

// Imports point one way: spec <- backends <- planner, executor <- cli <- main.
func TestImportsPointOneWay(t *testing.T) {
	for _, pkg := range packages(t) {
		name := inside(pkg.ImportPath)
		floor, beside, ok := floorOf(name)
		if !ok {
			t.Errorf("package %s has no place in the house: give it one in layers", pkg.ImportPath)
			continue
		}
		for _, imported := range pkg.Imports {
			if !ours(imported) {
				vendor(t, name, imported)
				continue
			}
			below := inside(imported)
			belowFloor, _, _ := floorOf(below)
			if belowFloor > floor || belowFloor == floor && !slices.Contains(beside, below) {
				t.Errorf("%s imports %s, which does not lie below it", pkg.ImportPath, imported)
			}
			if (floor == 5 || floor == 6) && slices.Contains(choosers, below) {
				t.Errorf("%s imports the driver %s: it is to work with any", pkg.ImportPath, imported)
			}
		}
	}
}

// A plan follows from its inputs: what makes it has no way to ask a server, a file or a clock.
func TestPlannerIsPure(t *testing.T) {
	for _, pkg := range packages(t) {
		if inside(pkg.ImportPath) != "planner" {
			continue
		}
		for _, imported := range pkg.Imports {
			if slices.Contains([]string{"os", "net", "net/http", "crypto/rand", "math/rand/v2", module + "/backends/calls", module + "/backends/clock"}, imported) {
				t.Errorf("%s imports %s", pkg.ImportPath, imported)
			}
		}
	}
}

// Planner and executor never import each other, not even through others.
func TestPlannerAndExecutorAreStrangers(t *testing.T) {
	for _, pkg := range packages(t) {
		name := inside(pkg.ImportPath)
		for _, dep := range pkg.Deps {
			switch {
			case under(name, "planner") && under(inside(dep), "executor") && ours(dep),
				under(name, "executor") && under(inside(dep), "planner") && ours(dep):
				t.Errorf("%s depends on %s", pkg.ImportPath, dep)
			}
		}
	}
}

// What judges a simulated sale shares no code with what it judges: of ours it
// knows the stored form of the logs and the words of the API alone.
func TestCheckersShareNoCode(t *testing.T) {
	for _, pkg := range packages(t) {
		if inside(pkg.ImportPath) != "sim/check" {
			continue
		}
		for _, dep := range pkg.Deps { // api tells how a draw stands in draw's words
			if ours(dep) && !slices.Contains([]string{"backends/ledger/ledgerpb", "api", "api/streampb", "draw"}, inside(dep)) {
				t.Errorf("%s depends on %s", pkg.ImportPath, dep)
			}
		}
		if slices.ContainsFunc(pkg.Imports, func(of string) bool { return inside(of) == "draw" }) {
			t.Errorf("%s works out draws by the code that it judges", pkg.ImportPath)
		}
	}
}

func vendor(t *testing.T, name, imported string) {
	t.Helper()
	for prefix, who := range vendors {
		if under(imported, prefix) && !slices.Contains(strings.Fields(who), name) {
			t.Errorf("%s imports %s, which only %s may", name, imported, who)
		}
	}
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	// Without -test: tests may look into other floors.
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg goPackage
		if err := list.Decode(&pkg); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, pkg)
	}
}

func ours(importPath string) bool { return under(importPath, module) }

// inside is a package's path within the module, "" for main.
func inside(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func floorOf(name string) (floor int, beside []string, ok bool) {
	for _, l := range layers {
		if l.under == name {
			return l.floor, l.beside, true
		}
	}
	return 0, nil, false
}
