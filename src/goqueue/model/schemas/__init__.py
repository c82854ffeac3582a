"""Words of the schema registry: schemas, references, levels, errors."""
