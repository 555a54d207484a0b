// Package mutation is the switch that the command mutate builds into its copies of
// the code: they have all mutants at once, and this selects the one that is on. No
// other code may import it.
package mutation

import (
	"encoding/binary"
	"os"
	"strconv"
	"sync/atomic"
)

// The environment of a program that was built with mutants.
const (
	Active  = "SALECTL_MUTANT"          // the number of the mutant that is on; none: no mutant is
	Reached = "SALECTL_MUTANTS_REACHED" // a file that gets the number of each mutant that the program comes by, four bytes each
)

// Most is how many mutants a program can have; the first has number 1.
const Most = 1 << 16

var (
	active, _ = strconv.Atoi(os.Getenv(Active))
	reached   = open(os.Getenv(Reached))
	seen      [Most]atomic.Bool
)

func open(name string) *os.File {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	return file
}

// On reports whether a mutant is on.
func On(id int) bool {
	if reached != nil && !seen[id].Swap(true) {
		if _, err := reached.Write(binary.LittleEndian.AppendUint32(nil, uint32(id))); err != nil {
			panic(err)
		}
	}
	return id == active
}

// Off is the contrary of On.
func Off(id int) bool { return !On(id) }

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type number interface{ integer | ~float32 | ~float64 }

// Add and the functions below it are an operator, or what a mutant has for it.
func Add[T number](id int, a, b T) T {
	if On(id) {
		return a - b
	}
	return a + b
}

func Sub[T number](id int, a, b T) T {
	if On(id) {
		return a + b
	}
	return a - b
}

func Mul[T number](id int, a, b T) T {
	if On(id) {
		return a / b
	}
	return a * b
}

func Div[T number](id int, a, b T) T {
	if On(id) {
		return a * b
	}
	return a / b
}

func Rem[T integer](id int, a, b T) T {
	if On(id) {
		return a * b
	}
	return a % b
}
