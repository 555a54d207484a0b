package rules

import (
	"fmt"
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxRegex limits the program size of a regular expression.
const maxRegex = 1000

// maxNesting limits how deeply macros with loops, such as all, exists and map, may be nested or chained.
const maxNesting = 3

// newEnvironment returns the CEL environment of a provider's names, with the limits of all expressions.
// It lacks dyn, which would leave names and types unchecked until an evaluation, and type.
func newEnvironment(p *provider, options ...cel.EnvOption) (*cel.Env, error) {
	environment, err := cel.NewCustomEnv(append([]cel.EnvOption{
		cel.CustomTypeProvider(p),
		cel.VariableDecls(p.names...),
		cel.StdLib(cel.StdLibSubset((&env.LibrarySubset{}).AddExcludedFunctions(env.NewFunction("dyn"), env.NewFunction("type")))),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(50),
		cel.ExpressionNodeLimit(10_000),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.DefaultUTCTimeZone(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting)),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return environment, nil
}

// ruleOptions are the options of the environment of rules.
var ruleOptions = []cel.EnvOption{
	cel.CrossTypeNumericComparisons(false),
	cel.ASTValidators(cel.ValidateHomogeneousAggregateLiterals()),
	unitsFunction,
	cel.CostEstimatorOptions(cost.OverloadCostEstimate(unitsOverload, estimateUnits)),
}

// programOptions returns the options of every expression. TestEvaluationsStopAtTheirCost tests the
// limit with exactly these options.
func programOptions(limit uint64) []cel.ProgramOption {
	return []cel.ProgramOption{
		evalOptions,
		cel.CostTracking(nil),
		cel.CostTrackerOptions(cost.OverloadTracker(unitsOverload, func(args []ref.Val, _ ref.Val) *uint64 {
			return new(1 + cost.ActualSize(args[0]))
		})),
		cel.CostLimit(limit),
	}
}

// evalOptions are the options of uncounted programs, too.
var evalOptions = cel.EvalOptions(cel.OptOptimize)

const unitsOverload = "purchases_units"

// unitsFunction is history.units(), which CEL's own functions cannot express.
var unitsFunction = cel.Function("units", cel.MemberOverload(unitsOverload,
	[]*cel.Type{historyType}, types.IntType, cel.UnaryBinding(sumUnits)))

func sumUnits(list ref.Val) ref.Val {
	var sum int64
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		p, ok := it.Next().(*purchase)
		if !ok {
			return types.NewErr("units() is of purchases only")
		}
		if p.Units > 0 && sum > math.MaxInt64-p.Units || p.Units < 0 && sum < math.MinInt64-p.Units {
			return types.NewErr("the units of the purchases are more than an int can hold")
		}
		sum += p.Units
	}
	return types.Int(sum)
}

func estimateUnits(e cost.Estimator, target *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	size := cost.EstimateSize(e, *target)
	return cost.NewCallEstimate(size.AsCost().Add(cost.FixedCostEstimate(1)), nil)
}

// sizes provides the maximum sizes of values to CEL. It answers only for variables of rules, whose
// sizes CEL cannot derive; CEL derives the sizes of results.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	switch path[0] {
	case userName, claimName, saleName, historyName, variablesName:
		return sizeOf(node.Type())
	}
	return nil
}

func sizeOf(t *types.Type) *cost.SizeEstimate {
	switch t.Kind() {
	case types.StringKind, types.BytesKind:
		return new(cost.RangedSizeEstimate(0, MaxText))
	case types.ListKind:
		size := cost.RangedSizeEstimate(0, MaxList)
		size.Elem = sizeOf(t.Parameters()[0])
		return &size
	}
	return new(cost.FixedSizeEstimate(1))
}

// EstimateCallCost implements cost.Estimator. CEL estimates its own functions; only the size of
// conversions to string is bounded here.
func (sizes) EstimateCallCost(function, overload string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	if function != "string" || overload == "string_to_string" || overload == "bytes_to_string" {
		return nil
	}
	// The longest result is a timestamp or a double with all its digits.
	return cost.NewCallEstimate(cost.FixedCostEstimate(1), new(cost.RangedSizeEstimate(0, 40)))
}
