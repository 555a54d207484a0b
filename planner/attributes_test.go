package planner

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// eachSetting calls f for every field of the settings and of the messages in them, but for
// rows, which follow from what units are. in returns the message of settings that has it.
func eachSetting(f func(field protoreflect.FieldDescriptor, in func(*pb.Settings) protoreflect.Message)) {
	var walk func(fields protoreflect.FieldDescriptors, in func(*pb.Settings) protoreflect.Message)
	walk = func(fields protoreflect.FieldDescriptors, in func(*pb.Settings) protoreflect.Message) {
		for i := range fields.Len() {
			switch field := fields.Get(i); {
			case field.Name() == "rows":
			case field.Message() != nil:
				walk(field.Message().Fields(), func(s *pb.Settings) protoreflect.Message { return in(s).Mutable(field).Message() })
				fallthrough
			default:
				f(field, in)
			}
		}
	}
	walk(new(pb.Settings).ProtoReflect().Descriptor().Fields(), func(s *pb.Settings) protoreflect.Message { return s.ProtoReflect() })
}

// No setting is forgotten: shards are told it if some sale declares it, and where the one in
// force is another than was declared, a plan shows the difference.
func TestEverySettingIsMadeAndShown(t *testing.T) {
	sale := with(tickets(10), func(s *spec.Sale) {
		s.OpensAt, s.ClosesAt, s.Payment, s.Partial = epoch, epoch.Add(time.Hour), paid(), true
		s.Rules = []spec.Rule{{Name: "some", Require: "user.id != ''", Enforce: spec.EnforceDeny}}
		s.Units = &spec.Units{Ranges: []string{"A1-A10"}, Choose: true}
	})
	coded := with(tickets(10), func(s *spec.Sale) { s.Units = &spec.Units{FromFile: true, Secret: true} })
	drawn := with(tickets(10), func(s *spec.Sale) { s.Draw = new(spec.Draw) })
	made := settingsOf(sale, pb.Phase_OPEN)
	shown := func(s *pb.Settings) []Field {
		a := saleAttributes(sale, sale.Stock, "", 1)
		a.inForce(s, sale)
		return a.list()
	}
	// A plan shows the phase by itself, and these as they are declared: they belong to what
	// units are, or stay for the life of a run.
	asDeclared := []protoreflect.Name{"phase", "choose", "secret", "draw"}
	eachSetting(func(field protoreflect.FieldDescriptor, in func(*pb.Settings) protoreflect.Message) {
		is := in(made).Has(field) || in(settingsOf(coded, pb.Phase_OPEN)).Has(field) || in(settingsOf(drawn, pb.Phase_OPEN)).Has(field)
		if !is {
			t.Errorf("no sale has %s", field.FullName())
		}
		drifted := proto.CloneOf(made)
		in(drifted).Clear(field)
		if !slices.Contains(asDeclared, field.Name()) && slices.Equal(shown(drifted), shown(made)) {
			t.Errorf("a plan does not show that %s is another than was declared", field.FullName())
		}
	})
}

// No attribute is forgotten: a plan lists each, also those that are part of another.
func TestEveryAttributeIsListed(t *testing.T) {
	unlisted := []string{
		".Who.Rules.CostLimit",               // the same for all rules
		".Who.Queue.WorstCost",               // listed with a priority only
		".Ends.Claims", ".Ends.Refund.Total", // listed with others only, or not needed beside them
	}
	for _, path := range leaves(reflect.TypeFor[Attributes](), nil) {
		without, with := new(Attributes), new(Attributes)
		leaf(reflect.ValueOf(without).Elem(), path)
		v, name := leaf(reflect.ValueOf(with).Elem(), path)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint64:
			v.SetUint(1)
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"x": "x"}))
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"x"}))
		default:
			v.SetInt(1)
		}
		if slices.Equal(with.list(), without.list()) && !slices.Contains(unlisted, name) {
			t.Errorf("%s is not listed", name)
		}
	}
}

// leaves are the paths of fields to what is no struct.
func leaves(t reflect.Type, path []int) (all [][]int) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return [][]int{slices.Clone(path)}
	}
	for i := range t.NumField() {
		all = append(all, leaves(t.Field(i).Type, append(path, i))...)
	}
	return all
}

// leaf makes all that is on a path of fields, and returns what is at its end and its name.
func leaf(v reflect.Value, path []int) (end reflect.Value, name string) {
	for {
		switch {
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		case len(path) == 0:
			return v, name
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v = v.Index(0)
		default:
			name += "." + v.Type().Field(path[0]).Name
			v, path = v.Field(path[0]), path[1:]
		}
	}
}
