package sim

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"salectl/backends/ledger"
	"salectl/sim/check"
	"salectl/spec"
	"salectl/units"
)

// forUnits is the purpose of the streams of what units are, and of who receives it.
const forUnits purpose = 102

// unfiled is a stream under which no sale of TestWorldsThatFailed declares a file of units: those
// worlds are as they were when they failed.
const unfiled = 6

// unitFiles are the files of a sale that has its units in one: another for each stock, in a
// temporary folder of the world.
type unitFiles struct {
	*check.UnitFiles
	folder string // "": nothing is written yet
	err    error
}

// unitMark is part of each code, and of nothing else.
const unitMark = "cODe+"

// drawUnitFiles has the units of some sales be lines of a file, half of them secret.
func (s *scenario) drawUnitFiles(r random) {
	if s.lists != nil || s.choice != nil || s.drawn != nil || !r.chance(0.06) {
		return
	}
	f := &unitFiles{UnitFiles: &check.UnitFiles{Mark: unitMark, Lines: make(map[int64][]string)}}
	if r.chance(0.5) {
		f.Secret = make([]byte, units.MinSecret)
		_, _ = r.Read(f.Secret)
	}
	s.files = f
}

// declare declares the file of the stock in a sale's file.
func (f *unitFiles) declare(s *spec.Sale) {
	if f == nil {
		return
	}
	s.Units = &spec.Units{FromFile: true, File: f.write(s.Stock), Column: "code", Secret: f.Secret != nil}
	if s.Units.Secret {
		s.Units.KeyEnv = "UNITS_KEY"
	}
}

// write returns the path of the file of a stock. One of its units differs from those of other
// files, so that plans exchange units.
func (f *unitFiles) write(stock int64) string {
	if f.folder == "" && f.err == nil {
		f.folder, f.err = os.MkdirTemp("", "salectl-sim-")
	}
	path := filepath.Join(f.folder, fmt.Sprintf("%d.csv", stock))
	if f.Lines[stock] != nil || f.err != nil {
		return path
	}
	lines := make([]string, stock)
	for i := range lines {
		edition := 0
		if int64(i) == stock-1-stock%5 {
			edition = 1
		}
		lines[i] = fmt.Sprintf("%s%d-%d,%d", unitMark, i, edition, i%7)
	}
	f.Lines[stock] = lines
	f.err = os.WriteFile(path, []byte("code,pin\n"+strings.Join(lines, "\n")+"\n"), 0o600)
	return path
}

// plannedStock is the stock of the newest plan of the present run: the file of another might lack
// units that somebody has, and the sale would be refused until the end.
func (o *operators) plannedStock(otherwise int64) int64 {
	log := spec.SaleLog(saleName)
	sale := ledger.NewSale(log)
	if _, err := ledger.Load(context.Background(), o.w.store.memory.Handle(nil), log, sale); err != nil || !sale.Live() {
		return otherwise
	}
	declared, err := spec.FromJSON(sale.Newest().GetSpec())
	if err != nil || declared.Run != o.number {
		return otherwise
	}
	return declared.Stock
}

// remove removes the files.
func (f *unitFiles) remove() {
	if f != nil && f.folder != "" {
		_ = os.RemoveAll(f.folder)
	}
}

// env has the key, as the environment of a command.
func (f *unitFiles) env(string) (string, bool) {
	return base64.StdEncoding.EncodeToString(f.Secret), true
}

// key opens the units; nil: they are public, or numbers.
func (f *unitFiles) key() *units.Key {
	if f == nil || f.Secret == nil {
		return nil
	}
	key, err := units.NewKey(f.Secret)
	if err != nil {
		panic(err)
	}
	return key
}
