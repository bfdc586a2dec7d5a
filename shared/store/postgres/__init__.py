"""The store on Postgres: hot statements prepared on asyncpg, the others through SQLAlchemy Core."""
