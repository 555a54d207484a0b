package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measured are points of three rounds, of which the second is the median.
func measured() curves {
	c := make(curves)
	for i, name := range names {
		for n, callers := range crowds {
			actual := callers
			if name == overHTTP && callers == 20_000 {
				actual = 9500
			}
			for _, round := range []float64{0.5, 1, 7} {
				c.add(name, callers, point{actual, round * 1234 * float64(1+i) * float64(1+n), round * 0.0456 * float64(1+n), name == naiveProtocol && n == 4 && round >= 1})
			}
		}
	}
	return c
}

func TestMarkdown(t *testing.T) {
	got := markdown(measured().medians(), options{rounds: 3, each: time.Second})
	for _, want := range []string{
		"| callers | 1 | 20 | 200 | 2,000 | 20,000 |\n|---|---|---|---|---|---|\n",
		"| salectl in one process, embedded | 1,230/s, 0.046 ms | 2,470/s, 0.091 ms | 3,700/s, 0.14 ms | 4,940/s, 0.18 ms | 6,170/s, 0.23 ms |\n",
		"18,500/s\\*, 0.23 ms |\n",
		"24,700/s, more than 0.23 ms |\n",
		"\\* by 9,500 connections",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if got := wait(point{p99: 12_345}); got != "12 s" {
		t.Errorf("got %s", got)
	}
}

func TestRenew(t *testing.T) {
	docs := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(docs, "benchmarks.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# Before\n" + made.Begins + "old\n" + made.Ends + "After\n")
	if err := renew(docs, "new\n", []byte("<svg/>")); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if want := "# Before\n" + made.Begins + "new\n" + made.Ends + "After\n"; err != nil || string(page) != want {
		t.Errorf("got %q, %v, want %q", page, err, want)
	}
	if drawn, err := os.ReadFile(filepath.Join(docs, "benchmarks.svg")); err != nil || string(drawn) != "<svg/>" {
		t.Errorf("got %q, %v", drawn, err)
	}
}

// The page has the place that renew needs, and shows the plot.
func TestPageHasThePlace(t *testing.T) {
	page, err := os.ReadFile("../../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Replace(page, ""); err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(page), "(benchmarks.svg)") {
		t.Error("docs/benchmarks.md does not show the plot")
	}
}

func TestPlot(t *testing.T) {
	lines := measured().medians()
	lines[0].points[0].rate = 0 // nothing was sold
	drawn := plot(lines)
	for d := xml.NewDecoder(strings.NewReader(string(drawn))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, drawn)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(drawn), ">"+name+"</text>") {
			t.Errorf("%s is not named", name)
		}
	}
	if n := strings.Count(string(drawn), `fill="#f7f9fc"/></g>`); n != 1 || !strings.Contains(string(drawn), "Hollow") {
		t.Errorf("%d points are hollow, want 1 and what that means", n)
	}
	if strings.Contains(string(drawn), "NaN") || strings.Contains(string(drawn), "Inf") {
		t.Error("a point is nowhere")
	}
	shapes := regexp.MustCompile(`translate\(([\d.]+) ([\d.]+)\)`).FindAllStringSubmatch(string(drawn), -1)
	if want := len(names)*(2*len(crowds)+1) - 1; len(shapes) != want {
		t.Errorf("%d shapes, want %d", len(shapes), want)
	}
	for _, at := range shapes {
		x, errX := strconv.ParseFloat(at[1], 64)
		y, errY := strconv.ParseFloat(at[2], 64)
		if errX != nil || errY != nil || x > plotWidth-10 || y < panelTop || y > plotHeight-20 {
			t.Errorf("a shape at %s", at[0])
		}
	}
}

// What is more stands higher, or further right, by as much for each power of ten.
func TestAxis(t *testing.T) {
	y := tens([]float64{30, 7000}, 400, 100)
	if y.least != 10 || y.most != 10_000 || math.Round(y.at(10)) != 400 || math.Round(y.at(100)) != 300 || math.Round(y.at(10_000)) != 100 {
		t.Errorf("%+v: 10 at %v, 100 at %v, 10,000 at %v", y, y.at(10), y.at(100), y.at(10_000))
	}
	if one := tens([]float64{100}, 0, 1); one.least == one.most {
		t.Errorf("one value: %+v", one)
	}
}
