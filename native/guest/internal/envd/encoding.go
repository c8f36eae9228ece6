package envd

import (
	"strconv"
	"strings"
)

// encodings is what a caller accepts (RFC 9110, 12.5.3).
type encodings struct {
	plain, gzip bool
	// prefersGzip is set by SDKs, which ask for gzip by naming it alone. HTTP libraries always name all encodings that they know, and
	// for them compressing would only cost time.
	prefersGzip bool
}

func acceptedEncodings(accept string) encodings {
	qualities := map[string]float64{}
	others := false
	for entry := range strings.SplitSeq(accept, ",") {
		name, quality := encodingIn(entry)
		if name == "" {
			continue
		}
		qualities[name] = quality
		others = others || quality > 0 && name != "gzip" && name != "identity" && name != "*"
	}
	gzip, isNamed := qualities["gzip"]
	rest, hasRest := qualities["*"]
	identity, isIdentityNamed := qualities["identity"]
	if !isNamed {
		gzip = rest
	}
	return encodings{
		plain:       identity > 0 || !isIdentityNamed && (rest > 0 || !hasRest),
		gzip:        gzip > 0,
		prefersGzip: isNamed && gzip > 0 && gzip >= identity && !others,
	}
}

// encodingIn reads one entry of Accept-Encoding, such as `gzip;q=0.5`. A quality that is no number counts as 1.
func encodingIn(entry string) (string, float64) {
	name, parameters, _ := strings.Cut(entry, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if !strings.EqualFold(key, "q") {
			continue
		}
		if quality, err := strconv.ParseFloat(value, 64); err == nil {
			return name, quality
		}
	}
	return name, 1
}
